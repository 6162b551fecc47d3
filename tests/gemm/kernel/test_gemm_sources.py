"""The hash that GEMM records carry covers every file that nvcc reads, whichever groups of kernels a run builds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gemm.kernel import library
from gemm.kernel.library import CUDA_DIR, INCLUDE_DIRS, hashed_sources, source_hash, sources
from gemm.kernel.variants import Kernel, every_kernel
from micro.gpu.build import FLAGS_FILE, NVCC_FLAGS, kernel_sources
from micro.gpu.toolchain import find_toolkit
from stats.record.provenance import PACKAGE_ROOT, todays_hash

COMPILED = [PACKAGE_ROOT / name for name in hashed_sources() if name.endswith((".cu", ".cuh"))]
NOT_COMPILED = [CUDA_DIR / "stream.cu", CUDA_DIR / "raster_host.cpp", INCLUDE_DIRS[1] / "micro.cu"]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources, copied to where a test may edit them; ``source_hash`` looks there."""
    for folder in INCLUDE_DIRS:
        shutil.copytree(folder, tmp_path / folder.relative_to(PACKAGE_ROOT))
    moved = tuple(tmp_path / folder.relative_to(PACKAGE_ROOT) for folder in INCLUDE_DIRS)
    monkeypatch.setattr(library, "CUDA_DIR", moved[0])
    monkeypatch.setattr(library, "INCLUDE_DIRS", moved)
    return tmp_path


def edit(root: Path, path: Path) -> None:
    with (root / path.relative_to(PACKAGE_ROOT)).open("a", encoding="utf-8") as file:
        file.write("\n")


def test_every_group_is_a_source_of_the_hash() -> None:
    groups = {path.name for path in CUDA_DIR.glob("group_*.cu")}
    assert len(groups) > 1
    assert groups | {"gemm.cu"} == {path.name for path in COMPILED if path.suffix == ".cu"}
    assert groups | {"gemm.cu"} == {path.name for path in sources(every_kernel())}


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_an_edited_source_or_header_changes_the_hash(path: Path, copied: Path) -> None:
    before = source_hash()
    edit(copied, path)
    assert source_hash() != before


@pytest.mark.parametrize("path", NOT_COMPILED, ids=lambda path: path.name)
def test_what_no_gemm_kernel_is_made_from_does_not(path: Path, copied: Path) -> None:
    before = source_hash()
    assert before == library.kernel_hash(sources(every_kernel()), (), library.INCLUDE_DIRS)
    edit(copied, path)
    assert source_hash() == before


def test_the_files_that_a_record_names_give_its_hash() -> None:
    assert todays_hash(hashed_sources(), NVCC_FLAGS) == source_hash()
    assert source_hash() != source_hash(["-DGEMM_BREAK=1"])


def test_the_sources_of_one_kernel_are_some_of_them() -> None:
    some = sources([Kernel("A1"), Kernel("A3")])
    assert len(some) == 2
    assert set(kernel_sources(some, INCLUDE_DIRS)) < {*COMPILED, FLAGS_FILE}


def read_by_nvcc(source: Path) -> set[Path]:
    """Our files that nvcc reads for ``source``, in its own words."""
    command = [str(find_toolkit().nvcc), *NVCC_FLAGS, *(f"-I{path}" for path in INCLUDE_DIRS), "-MM", str(source)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = {Path(word).resolve() for word in text.replace("\\\n", " ").split()[2:]}
    return {path for path in {*paths, source} if path.is_relative_to(PACKAGE_ROOT)}


@pytest.mark.cuda_build
def test_nvcc_reads_no_file_that_the_hash_misses() -> None:
    groups = sorted(CUDA_DIR.glob("group_*.cu"))
    assert read_by_nvcc(CUDA_DIR / "gemm.cu") | read_by_nvcc(groups[0]) | set(groups) == set(COMPILED)
    others = [CUDA_DIR / "stream.cu", *(INCLUDE_DIRS[1] / f"{name}.cu" for name in ("micro", "instructions", "probe"))]
    for source in others:
        assert {*read_by_nvcc(source), FLAGS_FILE} == set(kernel_sources([source], INCLUDE_DIRS)), source.name
