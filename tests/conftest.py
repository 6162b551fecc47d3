"""Shared by all tests: GPU tests are skipped, and say why, where there is no GPU or no torch."""

from __future__ import annotations

import importlib.util

import pytest

from micro.device import cuda_device_count


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
