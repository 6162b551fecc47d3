"""What ``micro-bench doctor`` prints and exits with, and what other commands say of the trouble that it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from micro.doctor.examine import findings_json, findings_text
from micro.doctor.probes import Finding
from stats.base.errors import UserError
from tests.stand_in.machine import UUIDS, healthy

ROOT = Path(__file__).resolve().parents[3]


FINDINGS = [
    Finding("driver", "ok", "580.1"),
    Finding("clocks", "warn", "not\nroot", "run as root"),
    Finding("nvcc", "fail", "too old", "update"),
]


def test_text_is_one_line_for_each_finding() -> None:
    assert findings_text(FINDINGS) == (
        "ok    driver  580.1\nwarn  clocks  not root -> run as root\nfail  nvcc    too old -> update\n"
        "1 ok, 1 warn, 1 fail\n"
    )


def test_json_holds_every_finding_and_the_counts() -> None:
    found = json.loads(findings_json(FINDINGS))
    assert found["fail"] == 1
    assert found["findings"][1] == {
        "topic": "clocks",
        "status": "warn",
        "detail": "not\nroot",
        "remedy": "run as root",
    }


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "micro", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )


def test_the_command_exits_1_where_something_fails_and_prints_it_on_stdout(tmp_path: Path, libcuda: Path) -> None:
    environment = {"LD_LIBRARY_PATH": str(libcuda.parent), "SMEM_BENCH_CACHE": str(tmp_path / "cache")}
    broken = doctor("--json", **environment, STAND_IN_CUDA_INIT="802")
    assert (broken.returncode, broken.stderr) == (1, "")
    found = json.loads(broken.stdout)
    assert found["fail"] >= 1
    assert "fabricmanager" in found["findings"][0]["remedy"]
    absent = doctor(CUDA_VISIBLE_DEVICES="", SMEM_BENCH_CACHE=str(tmp_path / "cache"))
    assert absent.returncode == (1 if "fail  " in absent.stdout else 0), absent.stdout
    assert absent.stderr == ""


def test_uuids_of_the_stand_ins_agree() -> None:
    assert UUIDS[0] == "GPU-" + "-".join(("00010203", "0405", "0607", "0809", "0a0b0c0d0e0f"))


def test_a_driver_that_does_not_start_is_not_taken_for_a_machine_without_a_gpu(tmp_path: Path, libcuda: Path) -> None:
    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "micro"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(libcuda.parent), **environment},
            check=False,
        )

    broken = run(STAND_IN_CUDA_INIT="803")
    assert broken.returncode == 0
    assert broken.stdout.startswith("PREDICTED, NOT MEASURED")
    assert broken.stderr == (
        "micro-bench: the driver is here but does not start (cuInit gives 803: the driver in the kernel is not that "
        "of libcuda); reboot, or load the driver that was installed\n"
    )
    assert run(CUDA_VISIBLE_DEVICES="").stderr == ""


def test_no_device_says_why(libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from micro.gpu import device

    driver = healthy(libcuda.parent, libcuda).cuda
    monkeypatch.setattr(device, "cuda_driver", driver)
    assert device.cuda_device_count() == 2
    assert device.driver_trouble() is None
    monkeypatch.setenv("STAND_IN_CUDA_INIT", "802")
    assert device.cuda_device_count() == 0
    with pytest.raises(UserError, match=r"no CUDA device is visible \(the driver is here .*nvidia-fabricmanager"):
        device.require_gpu(0)
    monkeypatch.setattr(device, "cuda_driver", lambda: None)
    with pytest.raises(UserError, match=r"\(driver absent, or CUDA_VISIBLE_DEVICES is empty\); see micro-bench"):
        device.require_gpu(0)
