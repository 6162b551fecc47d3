"""What the tests of machine code share: which architectures this nvcc offers."""

from __future__ import annotations

from micro.toolchain import MINIMUM_ARCH, find_toolkit

KNOWN_ARCHS = (80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


def offered() -> list[int]:
    """Architectures from sm_80 up that the toolkit knows."""
    return [arch for arch in find_toolkit().architectures if arch >= MINIMUM_ARCH]
