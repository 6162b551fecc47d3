"""Do all kernels of a run share an SM in the same number of blocks, and does none spill?

A comparison in which one variant runs 2 blocks per SM and another 1 measures occupancy, not the read path. Computed
from the static facts of a record, so it can be said again, in every table, without a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any


def residency_faults(static: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One sentence per kernel whose residency is not that of the majority, or that spills; arms without facts pass."""
    kernels = {name: facts for name, facts in static.items() if "resident_blocks" in facts}
    if not kernels:
        return []
    usual = Counter(facts["resident_blocks"] for facts in kernels.values()).most_common(1)[0][0]
    faults = []
    for name, facts in kernels.items():
        if facts["resident_blocks"] != usual:
            faults.append(
                f"{name}: {facts['resident_blocks']} blocks per SM ({facts['registers']} registers a thread), "
                f"the others {usual}: a comparison with it is not controlled for occupancy"
            )
        if facts["spill_bytes"]:
            faults.append(f"{name}: spills {facts['spill_bytes']} bytes a thread to local memory")
    return faults


def pair_fault(static: Mapping[str, Mapping[str, Any]], a: str, b: str) -> str | None:
    """Why the comparison of two arms is not controlled, or None: their residency differs, or one spills."""
    facts_a, facts_b = static.get(a, {}), static.get(b, {})
    if "resident_blocks" not in facts_a or "resident_blocks" not in facts_b:
        return None
    if facts_a["resident_blocks"] != facts_b["resident_blocks"]:
        return f"{a} runs {facts_a['resident_blocks']} blocks per SM, {b} {facts_b['resident_blocks']}"
    for name, facts in ((a, facts_a), (b, facts_b)):
        if facts["spill_bytes"]:
            return f"{name} spills {facts['spill_bytes']} bytes a thread"
    return None
