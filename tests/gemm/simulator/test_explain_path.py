"""The steady pass through a loop with branches: never out of it, never past its copies."""

from __future__ import annotations

import pytest

from gemm.simulator.path import steady_pass
from micro.code.loops import Loop
from micro.code.sass import Instruction, SassError


def loop(*lines: tuple[str, int | None, str | None]) -> Loop:
    """Instructions (opcode, target, guard) at 0x10, 0x20, ...; the header is the first."""
    code = tuple(Instruction(0x10 * (i + 1), g, op, (), t) for i, (op, t, g) in enumerate(lines))
    return Loop("kernel", 0x10, code)


def test_straight_loop_is_itself() -> None:
    found = loop(("LDS", None, None), ("HMMA", None, None), ("BRA", 0x10, "P0"))
    assert [i.base for i in steady_pass(found)] == ["LDS", "HMMA", "BRA"]


def test_the_way_out_in_the_middle_is_not_taken() -> None:
    found = loop(("LDS", None, None), ("BRA", 0x1000, "P0"), ("HMMA", None, None), ("BRA", 0x10, None))
    assert [i.base for i in steady_pass(found)] == ["LDS", "BRA", "HMMA", "BRA"]


def test_copies_are_not_skipped_even_when_the_other_way_is_longer() -> None:
    found = loop(
        ("BRA", 0x40, "P0"),  # to the long way without copies
        ("LDGSTS", None, None),
        ("BRA", 0x80, None),
        *[("IADD3", None, None)] * 4,
        ("BRA", 0x10, "P1"),
    )
    assert [i.base for i in steady_pass(found)] == ["BRA", "LDGSTS", "BRA", "BRA"]


def test_a_dead_copy_is_no_copy() -> None:
    """@!PT copies nothing, so the longer way wins."""
    found = loop(
        ("BRA", 0x40, "P0"),
        ("LDGSTS", None, "!PT"),
        ("BRA", 0x80, None),
        *[("IADD3", None, None)] * 4,
        ("BRA", 0x10, "P1"),
    )
    assert [i.base for i in steady_pass(found)] == ["BRA", *["IADD3"] * 4, "BRA"]


def test_a_loop_inside_is_an_error() -> None:
    found = loop(("LDS", None, None), ("HMMA", None, None), ("BRA", 0x20, "P0"), ("BRA", 0x10, None))
    with pytest.raises(SassError, match="loop inside"):
        steady_pass(found)


def test_no_way_back_is_an_error() -> None:
    with pytest.raises(SassError, match="no way back"):
        steady_pass(loop(("LDS", None, None), ("BRA", 0x1000, None)))
