"""What the doctor says of permissions and tools, one unfit at a time, and what its own probes read of a machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from micro.doctor import probes as doctor_probes
from micro.doctor.examine import diagnose, exit_status
from micro.doctor.probes import Probes
from micro.gpu.toolchain import Toolkit
from stats.base.errors import UserError
from tests.stand_in.machine import MachineNvml, healthy, of, program

# Permissions


@pytest.mark.parametrize(
    ("changes", "says", "remedy"),
    [
        ({"is_admin": lambda: False}, "no CAP_SYS_ADMIN: not root", "run as root"),
        (
            {"is_admin": lambda: False, "in_container": lambda: True},
            "no CAP_SYS_ADMIN in this container",
            "--cap-add SYS_ADMIN",
        ),
        ({"environment": {"SMEM_BENCH_NEVER_LOCK": "1"}}, "SMEM_BENCH_NEVER_LOCK is set", "unset"),
        ({"nvml": lambda: MachineNvml(mig_mode=True)}, "MIG: the clock belongs to the whole GPU", "switch MIG off"),
        ({"nvml": lambda: MachineNvml(refuse={"nvmlInit": 1})}, "NVML: Uninitialized", "repair NVML"),
    ],
)
def test_clocks_that_cannot_be_locked(
    changes: dict[str, Any], says: str, remedy: str, tmp_path: Path, libcuda: Path
) -> None:
    found = of(diagnose(healthy(tmp_path, libcuda, **changes)), "clocks")
    assert found.status == "warn"
    assert says in found.detail
    assert "only monitors them" in found.detail
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("admin", "parameters", "status", "says"),
    [
        (True, "RmProfilingAdminOnly: 1\n", "ok", "permitted (CAP_SYS_ADMIN)"),
        (False, "RmProfilingAdminOnly: 0\n", "ok", "for every user"),
        (False, "ResmanDebugLevel: 1\nRmProfilingAdminOnly: 1\n", "warn", "ERR_NVGPUCTRPERM"),
        (False, None, "warn", "permission unknown"),
    ],
)
def test_permission_to_count(
    admin: bool, parameters: str | None, status: str, says: str, tmp_path: Path, libcuda: Path
) -> None:
    probes = healthy(tmp_path, libcuda, is_admin=lambda: admin, profiling_parameters=lambda: parameters)
    found = of(diagnose(probes), "counters")
    assert found.status == status
    assert says in found.detail


# Tools


def raising(text: str) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise UserError(text)

    return refuse


def toolkit(folder: Path, nvcc: str = "exit 0", **changes: Any) -> Callable[[], Toolkit]:
    path = program(folder / "other" / "bin" / "nvcc", nvcc)
    made = Toolkit(path, path.parents[1], (13, 0), "nvcc on PATH", (80, 90))
    return lambda: Toolkit(**{**vars(made), **changes})


TOO_NEW = (
    "echo 'In file included from /usr/local/cuda/include/cuda_runtime.h:82:'; "
    "echo '/c/host_config.h:169:2: error: #error -- unsupported GNU version! gcc versions later than 15'; exit 1"
)
TOOLS: list[tuple[Callable[[Path], dict[str, Any]], str, str, str]] = [
    (lambda _: {"distribution": lambda _: None}, "torch", "not installed", "smem-bench[gpu]"),
    (lambda _: {"distribution": lambda _: "2.3.1"}, "torch", "2.3.1: older than 2.4", "torch>=2.4"),
    (lambda _: {"torch_cuda": lambda: None}, "torch", "built without CUDA", "CUDA build"),
    (lambda _: {"torch_cuda": lambda: "14.1"}, "torch", "for CUDA 14.1, the driver serves 13.0", "update the driver"),
    (lambda _: {"toolkit": raising("no CUDA compiler found (a; b); do this")}, "toolkit", "found (a; b)", "do this"),
    (lambda f: {"toolkit": toolkit(f, version=(14, 0))}, "toolkit", "14.0, the driver serves 13.0", "older toolkit"),
    (lambda f: {"toolkit": toolkit(f, architectures=(80,))}, "nvcc", "not for sm_90 of this machine", "newer toolkit"),
    (lambda f: {"toolkit": toolkit(f, TOO_NEW)}, "host compiler", "error: #error -- unsupported GNU", "NVCC_CCBIN"),
    (lambda f: {"toolkit": toolkit(f, "exit 3")}, "host compiler", "nvcc says exit status 3", "NVCC_CCBIN"),
    (lambda _: {"on_path": lambda _: None}, "host compiler", "g++: not on PATH", "install g++"),
    (lambda _: {"environment": {"NVCC_CCBIN": "g++-9"}}, "host compiler", "g++-9: not there", "NVCC_CCBIN"),
    (lambda _: {"ninja": raising("ninja: not found; pip install ninja")}, "ninja", "not found", "pip install ninja"),
    (lambda f: {"ninja": lambda: program(f / "n", "exit 1")}, "ninja", "does not run", "reinstall"),
    (lambda _: {"cache": raising("/c: build cache cannot be written (x); set Y")}, "cache", "cannot be", "set Y"),
    (lambda _: {"free_bytes": lambda _: 1 << 20}, "cache", "0.0 GiB free", "SMEM_BENCH_CACHE"),
    (lambda _: {"free_bytes": lambda _: 1 << 20}, "records", "0.0 GiB free", "--out"),
]


@pytest.mark.parametrize(("change", "topic", "says", "remedy"), TOOLS)
def test_each_missing_or_unfit_tool_fails_where_there_is_a_gpu(
    change: Callable[[Path], dict[str, Any]], topic: str, says: str, remedy: str, tmp_path: Path, libcuda: Path
) -> None:
    findings = diagnose(healthy(tmp_path, libcuda, **change(tmp_path)))
    found = of(findings, topic)
    assert found.status == "fail"
    assert says in found.detail
    assert remedy in found.remedy
    assert exit_status(findings) == 1


@pytest.mark.parametrize(
    ("change", "topic", "says"),
    [
        (lambda _: {"ncu": raising("ncu: not found; x")}, "ncu", "not found"),
        (lambda f: {"ncu": lambda: program(f / "n", "exit 1")}, "ncu", "does not answer"),
        (lambda f: {"ncu": lambda: f / "absent"}, "ncu", "does not answer"),
        (lambda _: {"disassembler": raising("nvdisasm: not found; x")}, "nvdisasm", "not found"),
        (lambda _: {"free_bytes": lambda _: 1 << 30}, "cache", "1.0 GiB free"),
    ],
)
def test_what_only_some_commands_need_is_a_warning(
    change: Callable[[Path], dict[str, Any]], topic: str, says: str, tmp_path: Path, libcuda: Path
) -> None:
    findings = diagnose(healthy(tmp_path, libcuda, **change(tmp_path)))
    assert of(findings, topic).status == "warn"
    assert says in of(findings, topic).detail
    assert exit_status(findings) == 0


def test_a_folder_that_takes_no_records_is_a_warning(
    tmp_path: Path, libcuda: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert of(diagnose(healthy(tmp_path, libcuda)), "records").status == "warn"


# The real probes


def test_the_cuda_of_torch_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert doctor_probes._torch_cuda() is None  # no version file
    version = package / "version.py"
    version.write_text("__version__ = '2.9.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n")
    assert doctor_probes._torch_cuda() == "13.0"
    version.write_text("__version__ = '2.9.0+cpu'\ncuda = None\n")
    assert doctor_probes._torch_cuda() is None


def test_a_program_that_is_not_there_answers_127() -> None:
    assert doctor_probes._answer(["/no/such/program"])[0] == 127
    assert doctor_probes._answer([sys.executable, "-c", "print('hello'); raise SystemExit(3)"]) == (3, "hello\n")


def test_right_to_set_clocks_is_that_of_the_effective_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(text: str) -> Callable[..., str]:
        return lambda *_, **__: text

    monkeypatch.setattr(Path, "read_text", told("CapEff:\t000001ffffffffff\n"))
    assert doctor_probes._is_admin()
    monkeypatch.setattr(Path, "read_text", told("CapEff:\t00000000a80425fb\n"))  # root in a usual container
    assert not doctor_probes._is_admin()


def test_this_machine_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    findings = diagnose(Probes(here=tmp_path))
    assert of(findings, "python").detail == ".".join(map(str, sys.version_info[:3]))
    assert of(findings, "cache").detail.startswith(str(tmp_path))
    assert "torch" not in {finding.topic for finding in findings if finding.detail == ""}
