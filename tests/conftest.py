"""Shared by all tests: a stand-in for libcuda; GPU tests are skipped, and say why, where there is no GPU or torch."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Iterator

import pytest
from commands import no_gpu, run_command
from doctor_stand_ins import libcuda

from micro.device import cuda_device_count

__all__ = ["libcuda", "no_gpu", "run_command"]  # fixtures: pytest finds them here, whoever asks


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
