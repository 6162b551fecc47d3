"""Which read paths are there, and how does each one read its fragments?

Two places say so and no third: ``SMEM_VARIANTS`` in ``read_path.cuh``, from which every kernel is instantiated, and
``VARIANTS`` here, from which every config, command and default takes its names. The trap: the enumerators are the
numbers of the C enums, so a row of a library means something else as soon as the orders differ; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from stats.base.errors import UserError


class ReadMode(IntEnum):
    """How fragments come out of shared memory (READ_MODE)."""

    LD_SHARED = 0
    LDMATRIX = 1


class BLayout(IntEnum):
    """How B lies in shared memory (B_LAYOUT)."""

    NATURAL = 0  # Bs[BK][BN]
    TRANSPOSED = 1  # BsT[BN][BK], transposed on the host outside the timing


@dataclass(frozen=True)
class Variant:
    """One rung of the ladder."""

    name: str
    read_mode: ReadMode
    b_layout: BLayout


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("A1", ReadMode.LD_SHARED, BLayout.NATURAL),  # B read as b16 and packed
        Variant("A2", ReadMode.LD_SHARED, BLayout.TRANSPOSED),  # B transposed on the host, read as b32
        Variant("A2L", ReadMode.LDMATRIX, BLayout.TRANSPOSED),  # ldmatrix on the layout of A2
        Variant("A3", ReadMode.LDMATRIX, BLayout.NATURAL),  # .trans reads natural B
    )
}
ALL_VARIANTS = ",".join(VARIANTS)  # as an option takes them


def known_variants(names: list[str]) -> list[str]:
    """The names as they are: a pydantic validator. Raises ValueError naming an unknown one and the allowed."""
    for name in names:
        if name not in VARIANTS:
            raise ValueError(f"variant {name!r} is unknown; choose from {', '.join(VARIANTS)}")
    return names


def parse_variants(text: str) -> list[str]:
    """``"A1,A3"`` as names in the order given. Raises UserError for an unknown or repeated name."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in VARIANTS:
            raise UserError(f"variant {name!r}: unknown; choose from {', '.join(VARIANTS)}")
    if len(set(names)) != len(names):
        raise UserError(f"variants {text!r}: a name is given twice")
    if not names:
        raise UserError(f"variants: none given; choose from {', '.join(VARIANTS)}")
    return names
