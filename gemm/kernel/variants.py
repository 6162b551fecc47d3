"""Which kernels does the GEMM come in, what is each called, and which group of the C table holds it?

A kernel is a rung of the ladder (``micro.model.variants``) plus one setting of every other parameter; its name is the
rung's and what departs from the main table: ``A3``, ``A3/stages=2``, ``A1/fp16/noswz``. The trap: not every combination
is built, so ``group`` refuses what the C table does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import product

from micro.model.variants import VARIANTS, BLayout
from stats.base.errors import UserError

DTYPES = ("bf16", "fp16")
STAGES = (1, 2, 3, 4)
# The declared comparisons of the ladder: the whole, the pack, the instruction, the layout.
LADDER_PAIRS = (("A1", "A3"), ("A1", "A2"), ("A2", "A2L"), ("A2L", "A3"))


class LoadMode(IntEnum):
    """Global to shared (LOAD_MODE)."""

    LD_GLOBAL = 0
    CP_ASYNC = 1


class Epilogue(IntEnum):
    """Registers to C."""

    SIMPLE = 0
    STAGED = 1


class Schedule(IntEnum):
    """When a k-step's fragments are loaded: before its mma, or under those of the k-step before."""

    PLAIN = 0
    PIPELINED = 1


class Wait(IntEnum):
    """Groups of cp.async in flight past the wait: STAGES - 2, or none."""

    COUNTED = 0
    ALL = 1


@dataclass(frozen=True)
class Kernel:
    """One instantiation; the defaults are the main table's. ``blocks_per_sm`` 2 caps registers at 128, 1 does not."""

    variant: str
    dtype: str = "bf16"
    load_mode: LoadMode = LoadMode.CP_ASYNC
    stages: int = 3
    swizzle: bool = True
    epilogue: Epilogue = Epilogue.SIMPLE
    schedule: Schedule = Schedule.PLAIN
    wait: Wait = Wait.COUNTED
    blocks_per_sm: int = 2

    @property
    def departure(self) -> str:
        """What departs from the main table, as the name's tail: ``""`` or ``/fp16/stages=2``."""
        parts = (
            (self.dtype != "bf16", self.dtype),
            (self.load_mode is LoadMode.LD_GLOBAL, "ld_global"),
            (self.stages != 3, f"stages={self.stages}"),
            (not self.swizzle, "noswz"),
            (self.epilogue is Epilogue.STAGED, "staged"),
            (self.schedule is Schedule.PIPELINED, "pipelined"),
            (self.wait is Wait.ALL, "wait_all"),
            (self.blocks_per_sm == 1, "uncapped"),
        )
        return "".join(f"/{text}" for departs, text in parts if departs)

    @property
    def name(self) -> str:
        """Name of the kernel and of its arm."""
        return self.variant + self.departure

    @property
    def b_layout(self) -> BLayout:
        """How the kernel wants B: as it is, or transposed on the host."""
        return VARIANTS[self.variant].b_layout

    @property
    def group(self) -> str:
        """The ``cuda/group_*.cu`` that adds it. Raises UserError for a combination that is not built."""
        on_grid = replace(self, epilogue=Epilogue.SIMPLE, schedule=Schedule.PLAIN, wait=Wait.COUNTED, blocks_per_sm=2)
        if self == on_grid:
            swizzle = "swizzled" if self.swizzle else "unswizzled"
            return f"{self.dtype}_{self.load_mode.name.lower()}_{swizzle}"
        if self in _departures(self.variant):
            return "departures"
        raise UserError(
            f"{self.name}: not built; staged, pipelined, wait_all and uncapped come with bf16, cp_async, 3 stages and "
            "the swizzle, one at a time (pipelined also uncapped)"
        )


def _departures(variant: str) -> list[Kernel]:
    main = Kernel(variant)
    return [
        replace(main, epilogue=Epilogue.STAGED),
        replace(main, schedule=Schedule.PIPELINED),
        replace(main, wait=Wait.ALL),
        replace(main, blocks_per_sm=1),
        replace(main, schedule=Schedule.PIPELINED, blocks_per_sm=1),
    ]


def every_kernel(variants: Iterable[str] = tuple(VARIANTS), dtypes: Iterable[str] = DTYPES) -> Iterator[Kernel]:
    """Every instantiation of these variants and types that the C table holds."""
    dtypes = tuple(dtypes)
    for variant in variants:
        for dtype, load_mode, stages, swizzle in product(dtypes, reversed(LoadMode), STAGES, (True, False)):
            yield Kernel(variant, dtype, load_mode, stages, swizzle)
        if "bf16" in dtypes:
            yield from _departures(variant)


def ladder_comparisons(kernels: Iterable[Kernel]) -> list[tuple[str, str]]:
    """The ladder's pairs among kernels that differ in nothing but the rung, as arm names."""
    names = {kernel.name for kernel in kernels}
    tails = dict.fromkeys(kernel.departure for kernel in kernels)
    pairs = [(a + tail, b + tail) for tail in tails for a, b in LADDER_PAIRS]
    return [pair for pair in pairs if set(pair) <= names]
