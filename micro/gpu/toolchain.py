"""Which CUDA toolkit compiles the kernels, and can it do what is asked?

Looked for in this order: ``SMEM_BENCH_NVCC``, ``CUDA_HOME``/``CUDA_PATH``, ``nvcc`` on PATH, ``/usr/local/cuda``, the
wheels of the ``toolchain`` extra. The trap: an ``nvcc`` on PATH may be a wrapper script or a link, so its parent folder
need not be the toolkit; nvcc itself is asked (``--dryrun``) where it lives.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stats.base.errors import UserError, reason

MINIMUM_ARCH = 80  # mma.m16n8k16 with bf16 and cp.async both start at sm_80
_REMEDY = "install a CUDA toolkit and set CUDA_HOME, or: pip install 'smem-bench[toolchain]'"


@dataclass(frozen=True)
class Toolkit:
    """An nvcc that answered, and where its headers and libraries are."""

    nvcc: Path
    root: Path
    version: tuple[int, int]
    origin: str  # how it was found, for messages
    architectures: tuple[int, ...]  # 80, 86, 90, ...

    @property
    def version_text(self) -> str:
        """``major.minor``."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def library_dir(self) -> Path:
        """The folder that holds libcudart; wheels have ``lib``, installed toolkits ``lib64``."""
        for name in ("lib64", "lib", "targets/x86_64-linux/lib"):
            if any((self.root / name).glob("libcudart.so*")):
                return self.root / name
        raise UserError(f"{self.root}: no libcudart under lib64 or lib; {_REMEDY}")


def _run(command: list[str], timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def wheel_root() -> Path | None:
    """Where the NVIDIA wheels put a CUDA 13 toolkit, if any is installed for this interpreter."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for root in sorted(Path(folder).glob("cu[0-9]*"), reverse=True):
            if (root / "bin").is_dir():
                return root
    return None


def _candidates() -> Iterator[tuple[Path, str]]:
    explicit = os.environ.get("SMEM_BENCH_NVCC")
    if explicit:
        yield Path(explicit), "SMEM_BENCH_NVCC"
        return  # an explicit choice is never second-guessed
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "nvcc", variable
    on_path = shutil.which("nvcc")
    if on_path:
        yield Path(on_path), "nvcc on PATH"
    yield Path("/usr/local/cuda/bin/nvcc"), "/usr/local/cuda"
    root = wheel_root()
    if root is not None:
        yield root / "bin" / "nvcc", "NVIDIA wheels"


def _root_of(nvcc: Path) -> Path | None:
    """The toolkit that this nvcc belongs to, as nvcc itself tells it."""
    answer = _run([str(nvcc), "--dryrun", "-x", "cu", "-c", os.devnull, "-o", os.devnull])
    match = re.search(r"^#\$ TOP=(.*)$", answer.stderr + answer.stdout, re.MULTILINE)
    root = Path(match[1].strip()).resolve() if match else nvcc.resolve().parent.parent
    has_headers = (root / "include" / "cuda_runtime.h").exists() or any(root.glob("targets/*/include/cuda_runtime.h"))
    return root if has_headers else None


def _probe(nvcc: Path, origin: str) -> Toolkit | str:
    """The toolkit, or why this candidate is none."""
    if not nvcc.exists():
        return f"{origin}: {nvcc} does not exist"
    try:
        answer = _run([str(nvcc), "--version"])
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{origin}: {nvcc} does not run ({reason(error)})"
    match = re.search(r"release (\d+)\.(\d+)", answer.stdout)
    if answer.returncode != 0 or not match:
        return f"{origin}: {nvcc} --version gave no release"
    root = _root_of(nvcc)
    if root is None:
        try:
            find_host_compiler()  # nvcc does not even tell where it lives without one
        except UserError as error:
            return f"{origin}: {error}"
        return f"{origin}: {nvcc} has no cuda_runtime.h beside it"
    codes = re.findall(r"sm_(\d+)\s*$", _run([str(nvcc), "--list-gpu-code"]).stdout, re.MULTILINE)
    return Toolkit(
        nvcc=nvcc,
        root=root,
        version=(int(match[1]), int(match[2])),
        origin=origin,
        architectures=tuple(sorted({int(code) for code in codes})),
    )


@functools.cache
def find_toolkit() -> Toolkit:
    """The first toolkit that works. Raises UserError with what was tried and the remedy."""
    tried = []
    for nvcc, origin in _candidates():
        found = _probe(nvcc, origin)
        if isinstance(found, Toolkit):
            return found
        tried.append(found)
    raise UserError(f"no CUDA compiler found ({'; '.join(tried)}); {_REMEDY}")


def require_archs(toolkit: Toolkit, archs: list[int]) -> list[int]:
    """Check architectures (80, 90, ...) against nvcc. Raises UserError: what was asked, what nvcc knows, what to do."""
    known = [arch for arch in toolkit.architectures if arch >= MINIMUM_ARCH]
    for arch in archs:
        if arch < MINIMUM_ARCH:
            raise UserError(f"sm_{arch}: the kernels need sm_{MINIMUM_ARCH} or newer (bf16 mma, cp.async)")
        if arch not in known:
            raise UserError(
                f"sm_{arch}: nvcc {toolkit.version_text} ({toolkit.nvcc}) knows {', '.join(f'sm_{a}' for a in known)}; "
                "choose one of them or, if this is your GPU, install a newer CUDA toolkit and set CUDA_HOME"
            )
    return archs


def disassembler(name: str) -> Path:
    """``cuobjdump`` or ``nvdisasm``: beside nvcc, on PATH, or from the wheels. Raises UserError when absent."""
    places: list[Path | str | None] = []
    with contextlib.suppress(UserError):  # without nvcc, a disassembler alone still reads a cubin
        places.append(find_toolkit().root / "bin" / name)
    root = wheel_root()
    places += [shutil.which(name), root / "bin" / name if root else None]
    for place in places:
        if place and Path(place).exists():
            return Path(place)
    remedy = f"pip install 'smem-bench[toolchain]' (or only nvidia-cuda-{name})"
    raise UserError(f"{name}: not found beside nvcc, on PATH or in wheels; {remedy}")


def find_ninja() -> Path:
    """ninja beside the interpreter, on PATH, or from its wheel. Raises UserError when absent."""
    for place in (Path(sysconfig.get_path("scripts")) / "ninja", Path(sys.executable).parent / "ninja"):
        if place.exists():
            return place
    on_path = shutil.which("ninja")
    if on_path:
        return Path(on_path)
    raise UserError("ninja: not found beside the interpreter nor on PATH; pip install ninja")


def find_host_compiler() -> Path:
    """The C++ compiler that builds layout.cuh for the host: ``CXX``, c++, g++ or clang++."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return Path(found)
    raise UserError("no C++ compiler (c++, g++, clang++) on PATH; install one (for example the package g++) or set CXX")
