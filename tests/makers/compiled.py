"""What the tests of machine code share: which architectures this nvcc offers."""

from __future__ import annotations

import pytest

from micro.gpu.toolchain import MINIMUM_ARCH, find_toolkit

KNOWN_ARCHS = (80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
_QUICK = (80, 90, KNOWN_ARCHS[-1])
EVERY_ARCH = [arch if arch in _QUICK else pytest.param(arch, marks=pytest.mark.slow) for arch in KNOWN_ARCHS]
SLOW_80_AND_90 = [pytest.param(80, marks=pytest.mark.slow), 90]


def offered() -> list[int]:
    """Architectures from sm_80 up that the toolkit knows."""
    return [arch for arch in find_toolkit().architectures if arch >= MINIMUM_ARCH]
