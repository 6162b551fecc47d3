"""Are the counts the same from a system nvcc and from the wheels of the ``toolchain`` extra?

Each toolkit is chosen as a person would, by SMEM_BENCH_NVCC, in a process of its own. Skipped where there is only one.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from micro.gpu.toolchain import wheel_root

pytestmark = pytest.mark.cuda_build

# Everything but the mangled name, in which a hash of the source path may stand.
IGNORED = ("kernel",)


def toolkits() -> dict[str, Path]:
    wheels = wheel_root()
    places = {"system": shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"}
    if wheels is not None:
        places["wheels"] = str(wheels / "bin" / "nvcc")
    found = {name: Path(place) for name, place in places.items() if Path(place).exists()}
    if len({path.resolve() for path in found.values()}) < 2:
        pytest.skip(f"needs a system nvcc and one from wheels; here is {', '.join(found) or 'neither'}")
    return found


def release(nvcc: Path) -> str:
    said = subprocess.run([str(nvcc), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("release ")[1].split(",")[0]


def counts(package: str, nvcc: Path, cache: Path) -> list[dict[str, str]]:
    answer = subprocess.run(
        [sys.executable, "-m", package, "sass", "--arch", "80,90", "--format", "csv"],
        env={**os.environ, "SMEM_BENCH_NVCC": str(nvcc), "SMEM_BENCH_CACHE": str(cache)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    rows = list(csv.DictReader(io.StringIO(answer.stdout)))
    return [{key: value for key, value in row.items() if key not in IGNORED} for row in rows]


@pytest.mark.parametrize("package", ["micro", "gemm"])
def test_system_nvcc_and_wheels_count_the_same(package, tmp_path):
    found = toolkits()
    releases = {name: release(nvcc) for name, nvcc in found.items()}
    if len(set(releases.values())) > 1:
        pytest.skip(f"two releases of nvcc may differ: {releases}")
    first, second = (counts(package, nvcc, tmp_path / name) for name, nvcc in found.items())
    assert len(first) > 0
    assert first == second
