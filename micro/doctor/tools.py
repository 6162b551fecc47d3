"""Can kernels be built, disassembled and counted here, and is there room for it? Tools only tell their version.

With a GPU in the machine a missing compiler is a failure, without one a warning: predictions and analysis need none.
The traps: torch is never imported for this (seconds, and a CUDA context), its version file tells; and that nvcc exists
does not mean that it accepts the host compiler, so it preprocesses an empty file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from micro.doctor.probes import Finding, Probes, Seen, Status, fail, ok, warn
from micro.gpu.toolchain import MINIMUM_ARCH, Toolkit
from stats.base.errors import UserError

_OLDEST_TORCH = (2, 4)
_BUILD_BYTES = 256 << 20  # all groups of the GEMM with their objects, for one architecture
_COMFORT_BYTES = 2 << 30
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def _without(topic: str, seen: Seen, detail: str, remedy: str) -> Finding:
    """A lack that stops measuring where there is a GPU, and little else where there is none."""
    return fail(topic, detail, remedy) if seen.devices else warn(topic, f"{detail} (only a GPU needs it)", remedy)


def _pair(text: str) -> tuple[int, int]:
    parts = re.findall(r"\d+", text)
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 else (0, 0)


def python_and_torch(probes: Probes, seen: Seen) -> list[Finding]:
    """The interpreter, and torch with the CUDA that it was built for."""
    findings = [ok("python", probes.python)]
    version = probes.distribution("torch")
    install = "pip install 'smem-bench[gpu]'"
    if version is None:
        return [*findings, _without("torch", seen, "not installed", install)]
    cuda = probes.torch_cuda()
    if _pair(version) < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        return [
            *findings,
            _without("torch", seen, f"{version}: older than {oldest}", f"pip install 'torch>={oldest}'"),
        ]
    if cuda is None:
        detail = f"{version}, built without CUDA"
        return [*findings, _without("torch", seen, detail, "install a CUDA build of torch")]
    if seen.devices and _pair(cuda)[0] > seen.serves[0]:
        detail = f"{version} for CUDA {cuda}, the driver serves {seen.serves[0]}.{seen.serves[1]}"
        return [*findings, fail("torch", detail, "update the driver, or install a torch for its CUDA")]
    return [*findings, ok("torch", f"{version} for CUDA {cuda}")]


def compiler(probes: Probes, seen: Seen) -> list[Finding]:
    """The toolkit and how it was found, nvcc, whether it accepts the host compiler, ninja and the disassemblers."""
    try:
        toolkit = probes.toolkit()
    except UserError as error:
        detail, _, remedy = str(error).rpartition("; ")
        return [_without("toolkit", seen, detail, remedy), *_other_tools(probes, seen)]
    findings = [ok("toolkit", f"CUDA {toolkit.version_text} in {toolkit.root} (found by {toolkit.origin})")]
    if seen.devices and toolkit.version[0] > seen.serves[0] > 0:
        detail = f"CUDA {toolkit.version_text}, the driver serves {seen.serves[0]}.{seen.serves[1]}"
        findings = [fail("toolkit", detail, "update the driver, or set CUDA_HOME to an older toolkit")]
    findings += [*_nvcc(toolkit, seen), _host_compiler(probes, toolkit, seen)]
    return [*findings, *_other_tools(probes, seen)]


def _nvcc(toolkit: Toolkit, seen: Seen) -> list[Finding]:
    known = [arch for arch in toolkit.architectures if arch >= MINIMUM_ARCH]
    listed = ", ".join(f"sm_{arch}" for arch in known)
    told = f"{toolkit.nvcc}, release {toolkit.version_text}, compiles for {listed or 'no architecture of use'}"
    missing = sorted({device.arch for device in seen.devices if device.arch >= MINIMUM_ARCH} - set(known))
    if missing:
        wanted = ", ".join(f"sm_{arch}" for arch in missing)
        return [fail("nvcc", f"{told}, not for {wanted} of this machine", "install a newer toolkit, set CUDA_HOME")]
    return [ok("nvcc", told)]


def _host_compiler(probes: Probes, toolkit: Toolkit, seen: Seen) -> Finding:
    chosen = probes.environment.get("NVCC_CCBIN")
    path = probes.on_path(chosen or "g++")
    if path is None:
        absent = f"{chosen}: not there" if chosen else "g++: not on PATH"
        remedy = "set NVCC_CCBIN to a g++" if chosen else "install g++ (a package of that name), or set NVCC_CCBIN"
        return _without("host compiler", seen, absent, remedy)
    version = _VERSION.search(probes.answer([str(path), "-dumpfullversion"])[1])
    told = f"{path} {version[0] if version else 'of unknown version'}"
    status, text = probes.answer([str(toolkit.nvcc), "-x", "cu", "-E", os.devnull, "-o", os.devnull])
    if status != 0:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        first = next((line for line in lines if "error" in line), lines[0] if lines else f"exit status {status}")
        return _without("host compiler", seen, f"{told}: nvcc says {first}", "set NVCC_CCBIN to an older g++")
    return ok("host compiler", f"{told}, accepted by nvcc")


def _other_tools(probes: Probes, seen: Seen) -> list[Finding]:
    findings = []
    try:
        ninja = probes.ninja()
        version = _VERSION.search(probes.answer([str(ninja), "--version"])[1])
        if version is None:
            findings.append(_without("ninja", seen, f"{ninja}: does not run", "pip install --force-reinstall ninja"))
        else:
            findings.append(ok("ninja", f"{ninja} {version[0]}"))
    except UserError as error:
        findings.append(_without("ninja", seen, *_split(error)))
    for name in ("cuobjdump", "nvdisasm"):
        try:
            findings.append(ok(name, str(probes.disassembler(name))))
        except UserError as error:
            findings.append(warn(name, *_split(error)))
    return findings


def _split(error: UserError) -> tuple[str, str]:
    """Detail and remedy of a message, which ends in ``; remedy`` and may begin with its thing."""
    detail, _, remedy = str(error).rpartition("; ")
    return re.sub(r"^\w+: ", "", detail), remedy


def ncu(probes: Probes) -> list[Finding]:
    """Whether Nsight Compute is here; everything but counters works without."""
    try:
        path = probes.ncu()
    except UserError:
        return [warn("ncu", "not found", "install Nsight Compute, or name it with --ncu; only counters need it")]
    version = re.search(r"Version\s+([0-9][0-9.]*)", probes.answer([str(path), "--version"])[1])
    if version is None:
        return [warn("ncu", f"{path}: does not answer --version", "reinstall Nsight Compute; only counters need it")]
    return [ok("ncu", f"{path} {version[1].rstrip('.')}")]


def disk(probes: Probes) -> list[Finding]:
    """The build cache, the room in it, and whether records can be written where the command was started."""
    findings = []
    try:
        cache = probes.cache()
    except UserError as error:
        findings.append(fail("cache", *_split(error)))
    else:
        findings.append(_room("cache", cache, probes.free_bytes, "free some, or set SMEM_BENCH_CACHE"))
    if os.access(probes.here, os.W_OK):
        findings.append(_room("records", probes.here, probes.free_bytes, "free some, or give --out on another disk"))
    else:
        findings.append(warn("records", f"{probes.here}: cannot be written", "give --out in a folder of yours"))
    return findings


def _room(topic: str, folder: Path, free_bytes: Callable[[Path], int], remedy: str) -> Finding:
    free = free_bytes(folder)
    status: Status = "ok" if free >= _COMFORT_BYTES else "warn" if free >= _BUILD_BYTES else "fail"
    return Finding(topic, status, f"{folder}: {free / 2**30:.1f} GiB free", "" if status == "ok" else remedy)
