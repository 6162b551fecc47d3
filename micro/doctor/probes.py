"""What the doctor may ask, gathered so that a test can answer in the machine's place, and what a finding is.

Every probe only reads. The trap: a probe that imports torch, makes a CUDA context or calls one of NVML's setters would
change the machine that it examines; none does.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from micro.gpu.build_cache import cache_dir
from micro.gpu.cuda_driver import CudaDevice, CudaDriver, cuda_driver
from micro.gpu.ncu import find_ncu
from micro.gpu.toolchain import Toolkit, disassembler, find_ninja, find_toolkit
from stats.run.nvml import in_container

Status = Literal["ok", "warn", "fail"]
_PROFILING_PARAMETERS = Path("/proc/driver/nvidia/params")
_CAP_SYS_ADMIN = 21  # linux/capability.h; the driver asks for it before clocks are set or counters read
_ANSWER_TIMEOUT_S = 60


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, in words, and the remedy where it is not ``ok``."""

    topic: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Seen:
    """The devices that CUDA sees, and the newest CUDA (major, minor) that its driver serves; empty without a GPU."""

    devices: tuple[CudaDevice, ...] = ()
    serves: tuple[int, int] = (0, 0)


def ok(topic: str, detail: str) -> Finding:
    """As it should be."""
    return Finding(topic, "ok", detail)


def warn(topic: str, detail: str, remedy: str) -> Finding:
    """Something is missing or unusual; the suite works without, or says so in its results."""
    return Finding(topic, "warn", detail, remedy)


def fail(topic: str, detail: str, remedy: str) -> Finding:
    """What this machine is there for will not work until this is mended."""
    return Finding(topic, "fail", detail, remedy)


def _nvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def _distribution(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _torch_cuda() -> str | None:
    """The CUDA that torch was built for, read from its version file; None for a build without CUDA."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return found[1] if found else None


def _profiling_parameters() -> str | None:
    try:
        return _PROFILING_PARAMETERS.read_text(encoding="utf-8")
    except OSError:
        return None


def _is_admin() -> bool:
    """Whether this process may do what the driver reserves: CAP_SYS_ADMIN, which root in a container often lacks."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return os.geteuid() == 0
    effective = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status, re.MULTILINE)
    return bool(int(effective[1], 16) >> _CAP_SYS_ADMIN & 1) if effective else os.geteuid() == 0


def _answer(command: Sequence[str]) -> tuple[int, str]:
    """Exit status and everything a program printed; status 127 when it cannot be run."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ANSWER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@dataclass(frozen=True)
class Probes:
    """The questions; each default asks this machine. Those that find a tool raise UserError when it is absent."""

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    python: str = field(default_factory=lambda: ".".join(map(str, sys.version_info[:3])))
    cuda: Callable[[], CudaDriver | None] = cuda_driver
    nvml: Callable[[], Any] = _nvml
    distribution: Callable[[str], str | None] = _distribution
    torch_cuda: Callable[[], str | None] = _torch_cuda
    toolkit: Callable[[], Toolkit] = find_toolkit
    disassembler: Callable[[str], Path] = disassembler
    ninja: Callable[[], Path] = find_ninja
    ncu: Callable[[], Path] = find_ncu
    on_path: Callable[[str], Path | None] = _on_path
    answer: Callable[[Sequence[str]], tuple[int, str]] = _answer
    profiling_parameters: Callable[[], str | None] = _profiling_parameters
    is_admin: Callable[[], bool] = _is_admin
    in_container: Callable[[], bool] = in_container
    cache: Callable[[], Path] = cache_dir
    here: Path = field(default_factory=Path.cwd)
    free_bytes: Callable[[Path], int] = _free_bytes
