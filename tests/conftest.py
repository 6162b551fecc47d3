"""Shared by all tests: a stand-in for libcuda; GPU tests are skipped, and say why, where there is no GPU or torch."""

from __future__ import annotations

import importlib.util
import signal

import pytest
from doctor_stand_ins import libcuda

from micro.device import cuda_device_count

__all__ = ["libcuda"]  # a fixture: pytest finds it here, whoever asks


def pytest_configure() -> None:
    # A shell starts background jobs with SIGINT ignored, which the code under test would leave so, as with nohup.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if cuda_device_count() == 0:
        reason = "no CUDA device here"
    elif importlib.util.find_spec("torch") is None:
        reason = "a CUDA device, but no torch"
    else:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=reason))
