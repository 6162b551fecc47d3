"""Builds: an edited source is another product, a failure is nvcc's own words, a killed build blocks nobody."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from micro.bench.read_path.library import SOURCE, MicroLibrary
from micro.gpu.build import (
    CUDA_DIR,
    NVCC_FLAGS,
    _explain_failure,
    build_host_library,
    build_library,
    compile_cubin,
    kernel_hash,
    load_copy,
    load_library,
)
from micro.gpu.build_cache import cache_dir
from micro.gpu.toolchain import Toolkit, find_toolkit
from micro.model.variants import VARIANTS
from stats.base.errors import UserError

TOOLKIT = Toolkit(Path("/t/bin/nvcc"), Path("/t"), (13, 0), "test", (80,))


def test_an_edited_header_changes_the_hash_and_a_stranger_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "cuda"
    shutil.copytree(CUDA_DIR, folder)
    before = kernel_hash([folder / "micro.cu"], include_dirs=(folder,))
    assert before == kernel_hash([SOURCE])
    (folder / "unrelated.cuh").write_text("// nobody includes this\n")
    assert kernel_hash([folder / "micro.cu"], include_dirs=(folder,)) == before
    layout = folder / "layout.cuh"
    layout.write_text(layout.read_text() + "\n")
    assert kernel_hash([folder / "micro.cu"], include_dirs=(folder,)) != before
    assert kernel_hash([SOURCE], flags=("-DX",)) != before


def test_the_cache_can_be_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match=r"build cache cannot be written .*set SMEM_BENCH_CACHE"):
        cache_dir()


def test_the_host_compilers_words_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    broken = tmp_path / "broken.cpp"
    broken.write_text("int f( { }\n")
    with pytest.raises(UserError, match=r"broken\.cpp:1:\d+: error"):
        build_host_library("broken", [broken])
    assert not list(tmp_path.glob("*.so*"))


def test_two_threads_may_build_the_same_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have compiled before either moves its file into place: with one temporary name the second finds none."""
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    source = tmp_path / "answer.cpp"
    source.write_text('extern "C" int answer() { return 42; }\n')
    both_compiled = threading.Barrier(2, timeout=60)
    compile_really = subprocess.run

    def compile_and_wait(*arguments: Any, **options: Any) -> Any:
        answer = compile_really(*arguments, **options)
        both_compiled.wait()
        return answer

    monkeypatch.setattr(subprocess, "run", compile_and_wait)
    with ThreadPoolExecutor(2) as pool:
        products = list(pool.map(lambda _: build_host_library("answer", [source]), range(2)))
    assert products[0] == products[1]
    assert ctypes.CDLL(str(products[0])).answer() == 42
    assert list(tmp_path.glob("answer-*")) == products[:1]


def test_a_host_compiler_too_new_for_nvcc_names_the_setting() -> None:
    text = (
        "[1/2] nvcc ...\nFAILED: micro.cuda.o\n"
        "/t/include/crt/host_config.h:169:2: error: #error -- unsupported GNU version! gcc versions later than 15 are "
        "not supported!\n  169 | #error -- unsupported GNU version!\n"
    )
    message = str(_explain_failure(text, TOOLKIT))
    assert message.startswith("/t/include/crt/host_config.h:169:2: error: #error -- unsupported GNU version!")
    assert message.endswith("set NVCC_CCBIN to an older g++")


@pytest.mark.cuda_build
def test_a_source_that_does_not_compile_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    broken = tmp_path / "broken.cu"
    broken.write_text("__global__ void k() { undeclared(); }\n")
    with pytest.raises(UserError, match=r'nvcc \d+\.\d+ failed: .*broken\.cu\(1\): error: identifier "undeclared"'):
        compile_cubin(broken, 80)
    assert not list(tmp_path.glob("*.cubin*"))


@pytest.mark.cuda_build
def test_the_real_build_for_several_architectures_holds_every_variant() -> None:
    library = build_library("micro", [SOURCE], archs=[80, 90])
    assert library.source_hash == kernel_hash([SOURCE])
    assert library.flags == NVCC_FLAGS
    rows = MicroLibrary(library).table()
    assert [(row.name, row.read_mode, row.b_layout, row.swizzle) for row in rows] == [
        (variant.name, variant.read_mode, variant.b_layout, swizzle)
        for variant in VARIANTS.values()
        for swizzle in (True, False)
    ]
    assert build_library("micro", [SOURCE], archs=[90, 80]).cached


@pytest.mark.cuda_build
def test_a_twin_is_a_separate_copy() -> None:
    library = build_library("micro", [SOURCE], archs=[80, 90])
    first, twin = load_library(library), load_copy(library, "twin")
    address = [ctypes.cast(one.micro_launch, ctypes.c_void_p).value for one in (first, twin)]
    assert address[0] != address[1]
    assert MicroLibrary(twin).table() == MicroLibrary(first).table()
    assert not list(library.path.parent.glob("*.twin.*"))


@pytest.mark.cuda_build
def test_what_a_killed_build_left_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path))
    source = tmp_path / "tiny.cu"
    source.write_text('extern "C" int answer() { return 42; }\n')
    first = build_library("tiny", [source], archs=[80])
    folder = first.path.parent
    (folder / "complete").unlink()
    (folder / ".ninja_log").unlink()  # written when a command has ended
    for torn in (folder / "0-tiny.o", first.path):
        torn.write_bytes(torn.read_bytes()[:100])
    again = build_library("tiny", [source], archs=[80])
    assert not again.cached
    assert load_library(again).answer() == 42


@pytest.mark.cuda_build
@pytest.mark.parametrize("broken", ["compile", "link"])
def test_a_library_that_does_not_build_is_one_line(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words of ninja's own, and a path that holds the word for which nvcc's lines are searched, are not the cause."""
    folder = tmp_path / "an error here"
    folder.mkdir()
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(folder / "cache"))
    good, bad = folder / "good.cu", folder / "bad.cu"
    good.write_text('extern "C" int answer() { return 42; }\n')
    bad.write_text("int f() { return undeclared; }\n" if broken == "compile" else good.read_text())
    says = r'bad\.cu\(1\): error: identifier "undeclared"' if broken == "compile" else "multiple definition of .answer"
    with pytest.raises(UserError, match=rf"^nvcc \d+\.\d+ failed: .*{says}.* \(all of it: .*/build\.log\)$") as refused:
        build_library("two", [good, bad], archs=[80])
    assert "\n" not in str(refused.value)
    assert not list((folder / "cache").glob("*/complete"))
    bad.write_text("")
    assert load_library(build_library("two", [good, bad], archs=[80])).answer() == 42


@pytest.mark.cuda_build
def test_the_library_uses_the_cuda_runtime_of_its_process_and_nothing_of_torch() -> None:
    """A second runtime, linked in, would know neither torch's streams nor its memory."""
    text = subprocess.run(
        ["readelf", "-d", str(build_library("micro", [SOURCE], archs=[80, 90]).path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    assert [name for name in needed if name.startswith("libcudart.so.")]
    assert not [name for name in needed if "torch" in name or "c10" in name]
    assert str(find_toolkit().library_dir) in text
