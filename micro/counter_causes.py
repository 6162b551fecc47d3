"""Why does a counter differ from its prediction, and what does the LSU pipe count? Answered from the record's figures.

The pipe's wavefront counters change from run to run: they hold wavefronts that no instruction asked for and that count
as conflicts (traffic that competes for the banks). The patched machine code's counters are of the instructions alone,
and exact. A cause is named only where the figures show it. The trap: ncu fills the metrics in several passes, each a
run of its own, so two of the pipe's counters agree only if they were read in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from micro.counter_record import CountersRecord, LaunchRow

__all__ = ["LSU_OPCODES", "cause", "exact_wavefronts", "lsu_rows"]

# Opcodes that sm__inst_executed_pipe_lsu counts, besides reads of SR_TID and SR_LANEID (found on sm_90: with these, 24
# launches of the micro kernels and the GEMM add up to the last instruction).
LSU_OPCODES = ("LDS", "LDSM", "STS", "LDG", "STG", "LDGSTS", "LDGDEPBAR", "SHFL")
# What one copy of 16 bytes a lane can count at most, wherever its addresses point.
_MOST_OF_A_COPY = {"ldgsts_wavefronts": 32, "ldgsts_sectors": 64, "ldgsts_bytes": 512}
_BY_INSTRUCTION = {"load": ("lds_wavefronts", "ldsm_wavefronts"), "store": ("sts_wavefronts",)}


def exact_wavefronts(counted: Mapping[str, float | None], side: str) -> float | None:
    """Wavefronts of the launch's loads or stores (``side``) by the patched machine code; None if one is missing."""
    values = [counted.get(key) for key in _BY_INSTRUCTION[side]]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def cause(launch: LaunchRow, key: str) -> str:
    """One line on why ``key`` differs from its prediction in this launch; ``not explained`` where nothing shows it."""
    if key in _MOST_OF_A_COPY:
        return _copies_off(launch, key)
    side, _, what = key.partition("_")
    if side not in _BY_INSTRUCTION or what not in ("wavefronts", "conflicts"):
        return "not explained"
    exact = exact_wavefronts(launch.counted, side)
    if exact is None or exact != launch.predicted_total(f"{side}_wavefronts"):
        return "not explained"
    excess = [_excess(launch, f"{side}_{other}") for other in ("wavefronts", "conflicts")]
    if any(value is None or value < 0 for value in excess):
        return "not explained"
    if excess[0] == excess[1]:
        return "the pipe's: conflicts of no instruction, one for one"
    return "the pipe's: of no instruction; its wavefronts and conflicts are of different passes"


def _copies_off(launch: LaunchRow, key: str) -> str:
    """What is left for each cp.async with every lane off: the patched code counts it at whatever its registers hold.

    Wavefronts seen on sm_90, with the registers from the disassembly: 28 where they hold fragments by then (all four
    copies of a turn in A2 and A2L), 4 where the pointer to natural B stays (one of four in A1 and A3, so 22 on
    average). A2L lacks 64 of them, as one coincidence in an A fragment would give that 4 warps of 16 blocks hold.
    """
    left, off = _excess(launch, key), launch.counted.get("ldgsts_off")
    if not off or left is None or not 0 <= left <= _MOST_OF_A_COPY[key] * off or _excess(launch, "ldgsts_off"):
        return "not explained"
    return f"left for {off:,.0f} copies with every lane off, at stale addresses: {left / off:.6g} each"


def _excess(launch: LaunchRow, key: str) -> float | None:
    value = launch.counted.get(key)
    return None if value is None else value - launch.predicted_total(key)


def lsu_rows(record: CountersRecord) -> list[dict[str, Any]]:
    """What the LSU pipe executed, beside the opcodes that it executes: one row a launch with both on record.

    ``left`` is what the opcodes leave; ``left_per_warp`` is whole where reads of SR_TID and SR_LANEID explain it, and
    no more than ``s2r_per_warp``, all reads of special registers.
    """
    rows = []
    for launch in record.launches:
        counted, warps = launch.counted.get("lsu_pipe"), launch.opcodes.get("EXIT", 0)
        if counted is None or not warps:
            continue
        by_opcode = sum(launch.opcodes.get(name, 0) for name in LSU_OPCODES)
        rows.append(
            {
                "arm": launch.arm,
                "counted": int(counted),
                "by_opcode": by_opcode,
                "left": int(counted) - by_opcode,
                "left_per_warp": (counted - by_opcode) / warps,
                "s2r_per_warp": launch.opcodes.get("S2R", 0) / warps,
            }
        )
    return rows
