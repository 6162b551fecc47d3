"""The variants of the read path and what each one means; the C table in ``read_path.cuh`` is the other place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from stats.errors import UserError

__all__ = ["VARIANTS", "BLayout", "ReadMode", "Variant", "parse_variants"]


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
    """One rung of the ladder and the one idea it adds."""

    name: str
    read_mode: ReadMode
    b_layout: BLayout
    idea: str


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("A1", ReadMode.LD_SHARED, BLayout.NATURAL, "ld.shared; B read as b16 and packed"),
        Variant("A2", ReadMode.LD_SHARED, BLayout.TRANSPOSED, "ld.shared; B pre-transposed, read as b32"),
        Variant("A2L", ReadMode.LDMATRIX, BLayout.TRANSPOSED, "ldmatrix on the layout of A2"),
        Variant("A3", ReadMode.LDMATRIX, BLayout.NATURAL, "ldmatrix; .trans reads natural B"),
    )
}


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
