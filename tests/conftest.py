"""Shared by all tests: a stand-in for libcuda; and the one place that says what a test needs, and skips it without.

A test that is not marked as needing torch or the CUDA toolkit does not see them where they are (``_hidden``), so a
missing mark fails on every machine and not only on the one that lacks the tool.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from micro.gpu.device import cuda_device_count
from micro.gpu.toolchain import disassembler, find_host_compiler, find_toolkit
from stats.base.errors import UserError
from tests.commands import no_gpu, run_command
from tests.stand_in.machine import libcuda

__all__ = ["libcuda", "no_gpu", "run_command"]  # fixtures: pytest finds them here, whoever asks


def _device() -> None:
    if cuda_device_count() == 0:
        raise UserError("no CUDA device here")


def _torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise UserError("torch is not installed")


def _compilers() -> None:
    find_toolkit()
    find_host_compiler()


def _disassemblers() -> None:
    for name in ("cuobjdump", "nvdisasm"):
        disassembler(name)


# What each marker of pyproject.toml needs; each need raises UserError where it is not met.
NEEDS: dict[str, tuple[Callable[[], object], ...]] = {
    "gpu": (_device, _torch, _compilers),
    "torch": (_torch,),
    "cuda_build": (_compilers, _disassemblers),
}
TORCH = importlib.util.find_spec("torch")
SEES_TORCH = ("gpu", "torch")
SEES_TOOLKIT = ("gpu", "cuda_build")


@functools.cache
def _missing(marker: str) -> str | None:
    for need in NEEDS[marker]:
        try:
            need()
        except UserError as error:
            return str(error)
    return None


def pytest_configure() -> None:
    # A shell starts background jobs with SIGINT ignored, which the code under test would leave so, as with nohup.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in NEEDS:
            if item.get_closest_marker(marker) and (reason := _missing(marker)):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _hidden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does not ask for is not there, in this process (torch) or in any that it starts (the toolkit)."""
    asked = {mark.name for mark in request.node.iter_markers()}
    if asked.isdisjoint(SEES_TORCH):
        find_spec = importlib.machinery.PathFinder.find_spec

        def without_torch(name: str, *arguments: Any) -> Any:
            found = find_spec(name, *arguments)
            return None if name == "torch" and found == TORCH else found

        monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", without_torch)
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    if asked.isdisjoint(SEES_TOOLKIT):
        monkeypatch.setenv("SMEM_BENCH_NVCC", "/a test without the mark cuda_build sees no nvcc")
        find_toolkit.cache_clear()


@pytest.fixture(scope="module")
def few_passes() -> Iterator[None]:
    """A GEMM block is simulated for three passes in the place of twelve, scaled alike: a quarter of the time."""
    from gemm.explain import predict  # for those alone that ask: it imports half of the project

    kept = (predict.predict_gemm, predict.predict_reads, predict.steady_cycles)

    def forget() -> None:
        for function in kept:
            function.cache_clear()

    with pytest.MonkeyPatch.context() as patch:
        forget()
        patch.setattr(predict, "_PASSES", 3)
        yield
    forget()
