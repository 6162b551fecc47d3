"""Which instructions of a kernel took shared wavefronts and global tags, and how many?

ncu prints a source metric as ``total (0x7f5e9f7f7500: 2048; …)``, an absolute address a figure. The trap: the address
is another in every process, so rows carry the offset in the kernel, whose first instruction every warp executes.
"""

from __future__ import annotations

from collections.abc import Mapping

from micro.counters.record import Instructions
from micro.gpu.ncu import parse_instances


def grouped_addresses(cells: Mapping[str, str]) -> list[Instructions]:
    """The instructions that took wavefronts or tags, in program order; those with the same figures are one row.

    ``cells`` are the printed values of the metrics ``executed_at``, ``wavefronts_at``, ``ideal_at``, ``tags_at``.
    """
    executed, wavefronts, ideal, tags = (
        {int(at, 16): n for at, n in parse_instances(cells.get(key, "")).items() if at.startswith("0x")}
        for key in ("executed_at", "wavefronts_at", "ideal_at", "tags_at")
    )
    rows: dict[tuple[int | None, ...], Instructions] = {}
    for at, n in sorted(executed.items()):
        if not (wavefronts.get(at) or tags.get(at)):
            continue
        figures = (wavefronts.get(at), ideal.get(at), tags.get(at))
        offset = hex(at - min(executed))
        row = rows.setdefault(
            (n, *figures),
            Instructions(
                instructions=0, first=offset, executed=n, wavefronts=figures[0], ideal=figures[1], tags=figures[2]
            ),
        )
        row.instructions += 1
    return list(rows.values())
