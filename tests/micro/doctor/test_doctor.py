"""What the doctor says of a healthy machine, and of one with each of the things that can be wrong, one at a time.

The machine is a stand-in throughout: libcuda in C, NVML in Python, tools as scripts. Nothing may be changed: NVML's
stand-in records every call that changes something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from micro.doctor.examine import diagnose, exit_status
from stats.base.errors import UserError
from tests.stand_in.machine import NOT_SUPPORTED, MachineNvml, healthy, of

ROOT = Path(__file__).resolve().parents[3]


def test_nothing_is_wrong_with_a_healthy_machine(tmp_path: Path, libcuda: Path) -> None:
    probes = healthy(tmp_path, libcuda)
    findings = diagnose(probes)
    assert {finding.status for finding in findings} == {"ok"}
    assert all(finding.detail and not finding.remedy for finding in findings)
    assert exit_status(findings) == 0
    topics = list(dict.fromkeys(finding.topic for finding in findings))
    assert topics == [
        "driver",
        "GPU 0",
        "GPU 1",
        "clocks",
        "python",
        "torch",
        "toolkit",
        "nvcc",
        "host compiler",
        "ninja",
        "cuobjdump",
        "nvdisasm",
        "ncu",
        "counters",
        "cache",
        "records",
    ]
    assert of(findings, "driver").detail == "580.95.05, serves CUDA up to 13.0"
    assert of(findings, "GPU 0", "UUID").detail == (
        "First Stand-in, UUID 00010203-0405-0607-0809-0a0b0c0d0e0f, sm_90, 132 SMs, 228 KiB shared memory an SM "
        "(227 KiB a block), 50 MiB L2"
    )
    assert "found by CUDA_HOME" in of(findings, "toolkit").detail
    assert "release 13.0, compiles for sm_80, sm_90, sm_100" in of(findings, "nvcc").detail
    assert "13.3.0, accepted by nvcc" in of(findings, "host compiler").detail


def test_nothing_is_changed(tmp_path: Path, libcuda: Path) -> None:
    nvml = MachineNvml()
    diagnose(healthy(tmp_path, libcuda, nvml=lambda: nvml))
    assert nvml.calls == []
    assert nvml.initialised == 0  # every start of NVML was ended


# Devices


@pytest.mark.parametrize(("visible", "names"), [("1,0", ["Second", "First"]), ("1", ["Second"])])
def test_renumbered_devices_are_matched_by_uuid(
    visible: str, names: list[str], tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    findings = diagnose(healthy(tmp_path, libcuda))
    for index, name in enumerate(names):
        assert of(findings, f"GPU {index}", "UUID").detail.startswith(f"{name} Stand-in")
        # The stand-in NVML's second GPU is one degree warmer: the reading is that of the same device.
        assert of(findings, f"GPU {index}", "temperature").detail.startswith(f"temperature: {35 + (name == 'Second')} ")
    assert not [finding for finding in findings if finding.topic == f"GPU {len(names)}"]


def test_hidden_devices_are_a_failure_that_names_the_variable(
    tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    findings = diagnose(healthy(tmp_path, libcuda, environment={"CUDA_VISIBLE_DEVICES": ""}))
    assert of(findings, "driver").status == "fail"
    assert "no CUDA device is visible (CUDA_VISIBLE_DEVICES='')" in of(findings, "driver").detail
    assert of(findings, "driver").remedy.startswith("unset CUDA_VISIBLE_DEVICES")
    assert exit_status(findings) == 1


@pytest.mark.parametrize(
    ("number", "says", "remedy"),
    [
        (802, "the system is not ready", "nvidia-fabricmanager"),
        (803, "the driver in the kernel is not that of libcuda", "reboot"),
        (804, "too old", "update the driver"),
        (34, "stub", "LD_LIBRARY_PATH"),
        (100, "no CUDA device is visible", "nvidia-smi -L"),
        (999, "999: unknown to this suite", "cuda.h"),
    ],
)
def test_a_driver_that_does_not_start_says_why(
    number: int, says: str, remedy: str, tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_CUDA_INIT", str(number))
    found = of(diagnose(healthy(tmp_path, libcuda)), "driver")
    assert found.status == "fail"
    assert says in found.detail
    assert remedy in found.remedy


def test_a_device_that_fell_off_the_bus_is_left_out(
    tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_CUDA_LOST", "1")
    assert not [each for each in diagnose(healthy(tmp_path, libcuda)) if each.topic == "GPU 1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert of(diagnose(healthy(tmp_path, libcuda)), "GPU").detail == "the driver works and shows no device"


def test_an_old_gpu_is_refused_by_the_rule(tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_CUDA_MAJOR", "7")
    found = of(diagnose(healthy(tmp_path, libcuda)), "GPU 0", "UUID")
    assert found.status == "fail"
    assert "sm_70" in found.detail
    assert "need sm_80 or newer" in found.detail


STATES: list[tuple[dict[str, Any], str, str]] = [
    ({"mig_mode": True}, "MIG: on", "nvidia-smi -mig 0"),
    ({"pids": (41, 42)}, "other processes: 2 (pid 41, 42)", "choose another --device"),
    ({"pids": tuple(range(1, 9))}, "other processes: 8 (pid 1, 2, 3, 4, 5, …)", "end them"),
    ({"refuse": {"nvmlDeviceGetComputeRunningProcesses": NOT_SUPPORTED}}, "processes: NVML does not tell", "make sure"),
    ({"ecc": [1, 0]}, "ECC: changes at the next reboot", "reboot first"),
    ({"ecc_errors": 3}, "ECC: 3 uncorrected errors", "replace"),
    ({"limit_mw": 500_000}, "power cap: 500 W, below the default of 700 W", "nvidia-smi -pl 700"),
    ({"persistence": 0}, "persistence: off", "nvidia-smi -pm 1"),
    ({"temperature_c": 80}, "temperature: 80 °C before any work", "cool"),
    ({"refuse": {"nvmlDeviceGetTemperature": NOT_SUPPORTED}}, "temperature: NVML does not tell", "measured clock"),
    ({"reasons": 0x40}, "slowed down now by hw_thermal_slowdown", "cooling"),
]


@pytest.mark.parametrize(("options", "says", "remedy"), STATES)
def test_each_unusual_state_is_a_warning_with_its_remedy(
    options: dict[str, Any], says: str, remedy: str, tmp_path: Path, libcuda: Path
) -> None:
    nvml = MachineNvml(**options)
    findings = diagnose(healthy(tmp_path, libcuda, nvml=lambda: nvml))
    found = of(findings, "GPU 0", says)
    assert found.status == "warn"
    assert remedy in found.remedy
    others = [each for each in findings if each.status != "ok" and not each.topic.startswith("GPU")]
    assert [each.topic for each in others] == (["clocks"] if options.get("mig_mode") else [])
    assert exit_status(findings) == 0
    assert nvml.calls == []


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("nvmlDeviceGetEccMode", "ECC: not on this GPU"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power cap: NVML does not tell"),
        ("nvmlDeviceGetPersistenceMode", "persistence: NVML does not tell"),
    ],
)
def test_what_a_chip_lacks_is_no_fault(function: str, says: str, tmp_path: Path, libcuda: Path) -> None:
    nvml = MachineNvml(refuse={function: NOT_SUPPORTED})
    assert of(diagnose(healthy(tmp_path, libcuda, nvml=lambda: nvml)), "GPU 0", says).status == "ok"


@pytest.mark.parametrize(
    ("nvml", "says"),
    [
        (lambda: None, "nvidia-ml-py is not installed"),
        (
            lambda: MachineNvml(refuse={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}),
            "NVML Shared Library Not Found",
        ),
        (lambda: MachineNvml(refuse={"nvmlSystemGetDriverVersion": pynvml.NVML_ERROR_UNKNOWN}), "Unknown Error"),
    ],
)
def test_without_nvml_the_devices_are_still_told(
    nvml: Callable[[], Any], says: str, tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # none of this machine's own either
    findings = diagnose(healthy(tmp_path, libcuda, nvml=nvml))
    assert says in of(findings, "NVML").detail
    assert of(findings, "NVML").status == "warn"
    assert of(findings, "driver").status == "ok"
    assert "132 SMs" in of(findings, "GPU 1", "UUID").detail
    assert exit_status(findings) == 0


def test_a_driver_without_its_cuda_library(tmp_path: Path, libcuda: Path) -> None:
    found = of(diagnose(healthy(tmp_path, libcuda, cuda=lambda: None)), "driver")
    assert (found.status, found.detail) == ("fail", "580.95.05, but no libcuda.so.1")


@pytest.mark.parametrize("init", ["0", "100"])
def test_a_machine_without_a_gpu_fails_nothing(
    init: str, tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> Any:
        raise UserError("no CUDA compiler found (nothing); pip install 'smem-bench[toolchain]'")

    def no_ninja() -> Path:
        raise UserError("ninja: not found; pip install ninja")

    def no_disassembler(name: str) -> Path:
        raise UserError(f"{name}: not found; pip install nvidia-cuda-{name}")

    def no_ncu() -> Path:
        raise UserError("ncu: not found; install Nsight Compute")

    monkeypatch.setenv("STAND_IN_CUDA_INIT", init)
    changes: dict[str, Any] = {"cuda": lambda: None} if init == "0" else {}
    findings = diagnose(
        healthy(
            tmp_path,
            libcuda,
            nvml=lambda: MachineNvml(refuse={"nvmlInit": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}),
            distribution=lambda _: None,
            toolkit=nothing,
            ninja=no_ninja,
            disassembler=no_disassembler,
            ncu=no_ncu,
            **changes,
        )
    )
    assert exit_status(findings) == 0
    warned = {finding.topic: finding.remedy for finding in findings if finding.status == "warn"}
    assert list(warned) == ["driver", "torch", "toolkit", "ninja", "cuobjdump", "nvdisasm", "ncu"]
    assert warned["toolkit"] == "pip install 'smem-bench[toolchain]'"
    assert warned["nvdisasm"] == "pip install nvidia-cuda-nvdisasm"
    assert not {"clocks", "counters"} & {finding.topic for finding in findings}
