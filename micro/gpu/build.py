"""From CUDA sources to a shared library that ctypes can call, or to a cubin that can be disassembled.

ninja runs nvcc, one object per source side by side, and links them to the shared CUDA runtime, which in a torch process
is then torch's own; nothing here needs torch. Every product is named by the hash of its sources, flags, architectures
and compilers (``build_cache``). The trap: what is not in that hash would be taken from an older build, so whatever
changes a product has to go into its key.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from micro.gpu.build_cache import cache_dir, locked, product_key
from micro.gpu.toolchain import Toolkit, find_host_compiler, find_ninja, find_toolkit, require_archs
from stats.base.errors import UserError
from stats.record.provenance import hash_sources, relative_sources, source_closure

CUDA_DIR = Path(__file__).resolve().parents[1] / "cuda"
# A file, not a literal, so that a report that imports nothing of this package still sees a flag change.
FLAGS_FILE = CUDA_DIR.parent / "nvcc_flags.txt"
NVCC_FLAGS = tuple(FLAGS_FILE.read_text(encoding="utf-8").split())
# What makes a shared library of objects; not in the hash of records, for it changes no kernel.
_OBJECT_FLAGS = ("-Xcompiler", "-fPIC")
_LINK_FLAGS = ("-shared", "-cudart", "shared", "-nodlink")  # a device link would add an empty cubin for nvcc's default


@dataclass(frozen=True)
class BuiltLibrary:
    """A shared library ready for ctypes, and what it was made from."""

    path: Path
    source_hash: str  # of sources, headers and flags: the one that records carry
    sources: tuple[str, ...]  # the files behind it, as records name them
    flags: tuple[str, ...]
    archs: tuple[int, ...]
    nvcc: str  # "13.0"
    cached: bool


def header_facts(built: BuiltLibrary) -> dict[str, Any]:
    """What a record's header says of a library and what ran it: the fields of ``stats.run.trials.ArmSet`` by name."""
    import torch

    software = {"torch": torch.__version__, "cuda_runtime": str(torch.version.cuda), "nvcc": built.nvcc}
    sources, flags = list(built.sources), list(built.flags)
    return {"software": software, "source_hash": built.source_hash, "sources": sources, "build_flags": flags}


def kernel_sources(sources: Sequence[Path], include_dirs: Sequence[Path] = (CUDA_DIR,)) -> list[Path]:
    """All files that the hash of a build covers: its sources, their headers, and the file of the flags."""
    return [*source_closure(sources, include_dirs), FLAGS_FILE]


def kernel_hash(sources: Sequence[Path], flags: Sequence[str] = (), include_dirs: Sequence[Path] = (CUDA_DIR,)) -> str:
    """Hash (16 hex digits) of the sources, their headers and the flags; the same on every machine."""
    return hash_sources(kernel_sources(sources, include_dirs), (*NVCC_FLAGS, *flags))


def _explain_failure(text: str, toolkit: Toolkit) -> UserError:
    """nvcc's own words first, then the setting that helps."""
    lines = [line.strip() for line in text.splitlines()]
    unsupported = next(
        (line for line in lines if "unsupported GNU version" in line or "unsupported clang" in line), None
    )
    if unsupported:
        return UserError(f"{unsupported}; set NVCC_CCBIN to an older g++")
    first = next(
        (
            line
            for line in lines
            if re.search(r"\berror\b|\bfatal\b|(undefined|multiple) (reference|definition)|cannot find", line)
        ),
        None,
    )
    missing = first and re.search("host compiler properties|Cannot find compiler", first)
    remedy = "; install g++ or set NVCC_CCBIN to a C++ compiler" if missing else ""
    return UserError(f"nvcc {toolkit.version_text} failed: {first or lines[-1] if lines else 'no output'}{remedy}")


def _library_path_flags(toolkit: Toolkit, folder: Path) -> list[str]:
    """Wheels carry libcudart.so.13 without the bare name that the linker wants: give it one in the build folder."""
    library_dir = toolkit.library_dir
    flags = [f"-L{library_dir}", "-Xlinker", f"-rpath={library_dir}"]
    if not (library_dir / "libcudart.so").exists():
        shim = folder / "libcudart.so"
        shim.unlink(missing_ok=True)
        shim.symlink_to(sorted(library_dir.glob("libcudart.so.*"))[0])
        flags.insert(0, "-L.")
    return flags


def build_library(
    name: str,
    sources: Sequence[Path],
    *,
    archs: Sequence[int],
    flags: Sequence[str] = (),
    include_dirs: Sequence[Path] = (CUDA_DIR,),
) -> BuiltLibrary:
    """Build ``sources`` for every architecture (80, 90, ...) into one shared library, or return the finished one.

    Raises UserError: no toolkit, unknown architecture, compiler failure, no ninja, cache not writable.
    """
    toolkit = find_toolkit()
    require_archs(toolkit, list(archs))
    source_hash = kernel_hash(sources, flags, include_dirs)
    compilers = (toolkit.version, str(toolkit.root), os.environ.get("NVCC_CCBIN"))
    key = product_key(source_hash, _OBJECT_FLAGS, _LINK_FLAGS, sorted(archs), *compilers)
    folder = cache_dir() / f"{name}-{key}"
    library = folder / f"{name}.so"
    complete = folder / "complete"

    def product(*, cached: bool) -> BuiltLibrary:
        return BuiltLibrary(
            path=library,
            source_hash=source_hash,
            sources=tuple(relative_sources(kernel_sources(sources, include_dirs))),
            flags=(*NVCC_FLAGS, *flags),
            archs=tuple(sorted(archs)),
            nvcc=toolkit.version_text,
            cached=cached,
        )

    if complete.exists() and library.exists():
        return product(cached=True)
    with locked(folder) as lock:
        if complete.exists() and library.exists():
            return product(cached=True)
        code = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in sorted(archs)]
        compile_flags = [*NVCC_FLAGS, *flags, *code, *_OBJECT_FLAGS, *(f"-I{path.resolve()}" for path in include_dirs)]
        _run_ninja(sources, compile_flags, library, toolkit, lock)
        complete.touch()
    return product(cached=False)


def _run_ninja(
    sources: Sequence[Path], compile_flags: Sequence[str], library: Path, toolkit: Toolkit, lock: int
) -> None:
    folder, nvcc = library.parent, str(toolkit.nvcc.absolute())
    commands = {
        (out := f"{i}-{source.stem}.o"): [nvcc, *compile_flags, "-c", str(source.resolve()), "-o", out]
        for i, source in enumerate(sources)
    }
    objects = list(commands)
    commands[library.name] = [nvcc, *_LINK_FLAGS, *objects, *_library_path_flags(toolkit, folder), "-o", library.name]
    lines = ["rule run", "  command = $command"]
    for out, command in commands.items():
        inputs = " ".join(objects if out == library.name else ())
        lines += [f"build {out}: run {inputs}", f"  command = {shlex.join(command).replace('$', '$$')}"]
    (folder / "build.ninja").write_text("\n".join([*lines, ""]), encoding="utf-8")
    # Whoever kills only this process leaves ninja and nvcc at work in the folder: they hold the lock with it.
    answer = subprocess.run(
        [str(find_ninja())], cwd=folder, capture_output=True, text=True, errors="replace", check=False, pass_fds=[lock]
    )
    if answer.returncode != 0:
        text = answer.stdout + answer.stderr
        (folder / "build.log").write_text(text, encoding="utf-8")
        for command in commands.values():  # ninja repeats it, and a folder may be called "error"
            text = text.replace(shlex.join(command), "")
        raise UserError(f"{_explain_failure(text, toolkit)} (all of it: {folder / 'build.log'})")


def load_library(library: BuiltLibrary) -> ctypes.CDLL:
    """Open a built library. Its CUDA runtime is found through the rpath or, in a torch process, is torch's own."""
    try:
        return ctypes.CDLL(str(library.path))
    except OSError as error:
        raise UserError(f"{library.path}: cannot be loaded ({error}); remove its folder to build again") from None


def load_copy(library: BuiltLibrary, tag: str) -> ctypes.CDLL:
    """A separately loaded build of the same source: the A/A twin has its own code and its own module on the device."""
    copy = library.path.with_name(f"{library.path.stem}.{tag}.{os.getpid()}.so")
    shutil.copyfile(library.path, copy)
    try:
        return ctypes.CDLL(str(copy))
    finally:
        copy.unlink()  # the mapping outlives the name


def _run_compiler(command: list[str], out: Path, toolkit: Toolkit | None) -> None:
    """Run a compiler that writes to a temporary name, and move the finished file into place."""
    # Named by thread as well as process: groups are compiled in threads, and two of them may want the same product.
    unfinished = out.with_name(f"{out.name}.{os.getpid()}.{threading.get_ident()}")
    answer = subprocess.run([*command, "-o", str(unfinished)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        unfinished.unlink(missing_ok=True)
        text = answer.stderr + answer.stdout
        if toolkit is not None:
            raise _explain_failure(text, toolkit)
        first = next((line for line in text.splitlines() if "error" in line), text.strip())
        raise UserError(f"{command[0]} failed: {first}")
    unfinished.replace(out)


def build_host_library(name: str, sources: Sequence[Path], include_dirs: Sequence[Path] = (CUDA_DIR,)) -> Path:
    """Compile ``sources[0]`` with the host compiler; the rest are headers. Needs neither CUDA nor torch."""
    compiler = find_host_compiler()
    out = cache_dir() / f"{name}-{product_key(kernel_hash(sources, (), include_dirs), str(compiler))}.so"
    if not out.exists():
        includes = [f"-I{path}" for path in include_dirs]
        _run_compiler([str(compiler), "-O2", "-std=c++17", "-shared", "-fPIC", *includes, str(sources[0])], out, None)
    return out


def compile_cubin(
    source: Path, arch: int, *, flags: Sequence[str] = (), include_dirs: Sequence[Path] = (CUDA_DIR,)
) -> Path:
    """Compile one source for one architecture with the flags of the library; returns the cubin in the cache.

    Raises UserError: no toolkit, architecture unknown or below sm_80, compiler failure. Needs no torch.
    """
    toolkit = find_toolkit()
    require_archs(toolkit, [arch])
    key = product_key(kernel_hash([source], flags, include_dirs), toolkit.version, str(toolkit.root))
    out = cache_dir() / f"{source.stem}-sm_{arch}-{key}.cubin"
    if not out.exists():
        includes = [f"-I{path}" for path in include_dirs]
        command = [str(toolkit.nvcc), *NVCC_FLAGS, *flags, *includes, f"-arch=sm_{arch}", "-cubin", str(source)]
        _run_compiler(command, out, toolkit)
    return out
