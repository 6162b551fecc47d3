"""A machine for the doctor to examine: libcuda (compiled from C), NVML, tools, folders that answer as real ones do."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from micro.doctor.probes import Finding, Probes
from micro.gpu.cuda_driver import CudaDriver
from micro.gpu.toolchain import Toolkit, find_host_compiler
from tests.stand_in.nvml import FakeNvml

UUIDS = ("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f")
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED


@functools.cache
def _compiled(folder: Path) -> Path:
    library = folder / "libcuda" / "libcuda.so.1"  # named as the loader looks for it
    library.parent.mkdir()
    source = Path(__file__).parent / "libcuda_stand_in.c"
    subprocess.run(
        [str(find_host_compiler()), "-x", "c", "-shared", "-fPIC", str(source), "-o", str(library)], check=True
    )
    return library


@pytest.fixture
def libcuda(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in, all of whose devices are visible; conftest.py hands it to the tests."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return _compiled(tmp_path_factory.getbasetemp())


class MachineNvml(FakeNvml):
    """NVML of a machine with the two GPUs of the stand-in libcuda; the handle is the GPU's number."""

    def __init__(self, **options: Any) -> None:
        self.temperature_c = options.pop("temperature_c", 35)
        self.ecc, self.ecc_errors = options.pop("ecc", [1, 1]), options.pop("ecc_errors", 0)
        self.limit_mw, self.persistence = options.pop("limit_mw", 700_000), options.pop("persistence", 1)
        super().__init__(**options)

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.95.05"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        if uuid not in UUIDS:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return UUIDS.index(uuid)

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:  # noqa: N802
        return int(self.temperature_c + handle)

    def nvmlDeviceGetEccMode(self, handle: Any) -> list[int]:  # noqa: N802
        return list(self.ecc)

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: int, counter: int) -> int:  # noqa: N802
        assert (kind, counter) == (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        return int(self.ecc_errors)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:  # noqa: N802
        return int(self.limit_mw)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: Any) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetPersistenceMode(self, handle: Any) -> int:  # noqa: N802
        return int(self.persistence)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self.pids]


def program(path: Path, body: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def healthy(folder: Path, libcuda: Path, **changes: Any) -> Probes:
    """A machine on which nothing is wrong; ``changes`` replace probes."""
    nvcc = program(folder / "cuda" / "bin" / "nvcc", "exit 0")
    gxx = program(folder / "bin" / "g++", "echo 13.3.0")
    ninja = program(folder / "bin" / "ninja", "echo 1.13.0")
    ncu = program(folder / "bin" / "ncu", "echo Version 2025.3.1.0 '(build 36398880) (public-release)'")
    tool = program(folder / "cuda" / "bin" / "nvdisasm", "exit 0")
    nvml = MachineNvml()
    usual: dict[str, Any] = {
        "environment": {},
        "python": "3.12.1",
        "cuda": lambda: CudaDriver(ctypes.CDLL(str(libcuda))),
        "nvml": lambda: nvml,
        "distribution": {"torch": "2.9.0"}.get,
        "torch_cuda": lambda: "13.0",
        "toolkit": lambda: Toolkit(nvcc, nvcc.parents[1], (13, 0), "CUDA_HOME", (75, 80, 90, 100)),
        "disassembler": lambda name: tool,
        "ninja": lambda: ninja,
        "ncu": lambda: ncu,
        "on_path": {"g++": gxx}.get,
        "profiling_parameters": lambda: "RmProfilingAdminOnly: 0\n",
        "is_admin": lambda: True,
        "in_container": lambda: False,
        "cache": lambda: folder,
        "here": folder,
        "free_bytes": lambda _: 100 << 30,
    }
    return Probes(**{**usual, **changes})


def of(findings: list[Finding], topic: str, text: str = "") -> Finding:
    """The one finding of a topic that holds a text."""
    (found,) = [each for each in findings if each.topic == topic and text in each.detail]
    return found
