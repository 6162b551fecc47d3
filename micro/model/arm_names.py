"""What is an arm of the micro-benchmark called, and what does its name say?

``A3/noswz:load+mma``: variant, swizzle, work; written and read here alone, so that reports find the arms of a record
without torch or a library. The trap: names are kept in records, so changing one orphans every record that has it.
"""

from __future__ import annotations

from enum import IntEnum


class Work(IntEnum):
    """What the timed loop holds: DO_MMA=0, DO_MMA=1, and the mma alone. Numbers as in ``micro.cu``."""

    LOAD = 0
    LOAD_MMA = 1
    MMA = 2


MMA_ARM = "mma"
_WORK_NAMES = {Work.LOAD: "load", Work.LOAD_MMA: "load+mma"}
_BY_NAME = {text: work for work, text in _WORK_NAMES.items()}


def arm_name(variant: str, swizzle: bool, work: Work) -> str:
    """``A1:load``, ``A1:load+mma``, with ``/noswz`` after the variant when the swizzle is off; ``mma`` alone."""
    if work is Work.MMA:
        return MMA_ARM
    return f"{variant}{'' if swizzle else '/noswz'}:{_WORK_NAMES[work]}"


def parse_arm(name: str) -> tuple[str, bool, Work] | None:
    """The variant, swizzle and work that an arm's name says; None for another arm (``mma``, a twin)."""
    head, _, work = name.partition(":")
    if work not in _BY_NAME:
        return None
    variant, _, suffix = head.partition("/")
    return variant, suffix != "noswz", _BY_NAME[work]
