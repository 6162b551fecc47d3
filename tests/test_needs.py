"""What a test needs is asked in one place: without it the test is skipped by name, and unasked it is not to be seen."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from micro.gpu.toolchain import find_toolkit
from stats.base.errors import UserError
from tests import conftest


def no(name: str) -> Any:
    def missing(*_: object) -> None:
        raise UserError(f"{name}: not found")

    return missing


@pytest.fixture(autouse=True)
def _asked_again() -> Iterator[None]:
    conftest._missing.cache_clear()
    yield
    conftest._missing.cache_clear()


def reasons(marker: str) -> list[str]:
    """Why a test with this marker is skipped, where only one thing at a time is missing."""
    added: list[Any] = []
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name == marker, add_marker=added.append)
    conftest.pytest_collection_modifyitems([item])
    return [mark.kwargs["reason"] for mark in added]


@pytest.mark.parametrize(
    ("marker", "place", "lacks", "reason"),
    [
        ("gpu", "tests.conftest.cuda_device_count", lambda: 0, "no CUDA device here"),
        ("gpu", "importlib.util.find_spec", lambda _: None, "torch is not installed"),
        ("torch", "importlib.util.find_spec", lambda _: None, "torch is not installed"),
        ("cuda_build", "tests.conftest.disassembler", no("nvdisasm"), "nvdisasm: not found"),
        *(
            (marker, f"tests.conftest.{name}", no(name), f"{name}: not found")
            for marker in ("gpu", "cuda_build")
            for name in ("find_toolkit", "find_host_compiler")
        ),
    ],
)
def test_a_test_is_skipped_by_the_name_of_what_is_missing(
    marker: str, place: str, lacks: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.conftest.cuda_device_count", lambda: 1)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    for name in ("find_toolkit", "find_host_compiler", "disassembler"):
        monkeypatch.setattr(f"tests.conftest.{name}", lambda *_: None)
    assert reasons(marker) == []
    conftest._missing.cache_clear()
    monkeypatch.setattr(place, lacks)
    assert reasons(marker) == [reason]


def test_a_test_that_does_not_ask_sees_neither_torch_nor_nvcc() -> None:
    assert importlib.util.find_spec("torch") is None
    with pytest.raises(ModuleNotFoundError, match="No module named 'torch'"):
        import torch  # noqa: F401
    with pytest.raises(UserError, match="a test without the mark cuda_build sees no nvcc"):
        find_toolkit()
    code = "from micro.gpu.toolchain import find_toolkit; find_toolkit()"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a test without the mark cuda_build sees no nvcc" in process.stderr


@pytest.mark.torch
def test_one_that_asks_for_torch_sees_it() -> None:
    import torch

    assert torch.__version__


@pytest.mark.cuda_build
def test_one_that_asks_for_nvcc_sees_it() -> None:
    assert find_toolkit().nvcc.exists()
