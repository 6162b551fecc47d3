"""Why does a counter differ from its prediction? Answered from a record's figures alone, each time a table is made.

Three kinds of counter: those of the patched machine code (``sass``, by instruction), which are exact; those of the
chip's units, which also count what no instruction asked for; and cp.async's. A cause says how far it is shown: proven
(the figures add up by instruction), inferred (they fit, another cause would too), open. The trap: ncu fills the metrics
in several passes, each a run of its own, so the chip's counters of one launch need not agree with each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from micro.counters.record import CountersRecord, Instructions, LaunchRow

# Opcodes that sm__inst_executed_pipe_lsu counts, besides reads of SR_TID and SR_LANEID (found on sm_90: with these, 24
# launches of the micro kernels and the GEMM add up to the last instruction).
LSU_OPCODES = ("LDS", "LDSM", "STS", "LDG", "STG", "LDGSTS", "LDGDEPBAR", "SHFL")
_BY_INSTRUCTION = {"load": ("lds_wavefronts", "ldsm_wavefronts"), "store": ("sts_wavefronts",)}
_OPEN = "open: nothing in the record shows why"
_LANES, _SECTORS_A_LINE = 32, 4


def standing(text: str) -> str:
    """``proven``, ``inferred`` or ``open``: how far a cause is shown."""
    return re.split(r"[: ]", text, maxsplit=1)[0]


def exact_wavefronts(counted: Mapping[str, float | None], side: str) -> float | None:
    """Wavefronts of the launch's loads or stores (``side``) by the patched machine code; None if one is missing."""
    values = [counted.get(key) for key in _BY_INSTRUCTION[side]]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def exact_conflicts(launch: LaunchRow) -> int | None:
    """Bank conflicts of shared loads and stores: wavefronts beyond the ideal, summed by instruction; None without."""
    rows = [(row, row.wavefronts, row.ideal) for row in launch.addresses if row.tags is None]
    known = [row.instructions * (took - ideal) for row, took, ideal in rows if took is not None and ideal is not None]
    return sum(known) if known and len(known) == len(rows) else None


@dataclass(frozen=True)
class Copies:
    """What the patched machine code counted for cp.async, summed by instruction over a launch."""

    lines: int  # 128-byte lines of global memory (tag requests), lanes off not counted
    wavefronts: int
    uncounted: int  # warp-wide copies of instructions with lines, but no wavefronts
    uncounted_lines: int
    beyond: tuple[tuple[int, int], ...]  # instructions, and how many wavefronts beyond its lines each of them shows

    @property
    def beyond_total(self) -> int:
        """Wavefronts beyond the lines, whole launch."""
        return sum(instructions * excess for instructions, excess in self.beyond)


def copies_by_instruction(rows: list[Instructions]) -> Copies | None:
    """The copies among a launch's instructions: those with global tags and shared wavefronts, in program order.

    None without any, or when those that show no wavefronts are not the first.
    """
    copies = [(row, row.wavefronts, row.tags) for row in rows if row.wavefronts is not None and row.tags is not None]
    silent_first = [took == 0 for _, took, _ in copies]  # of any other the first tile cannot be told
    if not copies or silent_first != sorted(silent_first, reverse=True):
        return None
    silent = [(row, tags) for row, took, tags in copies if took == 0]
    return Copies(
        lines=sum(row.instructions * tags for row, _, tags in copies),
        wavefronts=sum(row.instructions * took for row, took, _ in copies),
        uncounted=sum(row.instructions * row.executed for row, _ in silent),
        uncounted_lines=sum(row.instructions * tags for row, tags in silent),
        beyond=tuple((row.instructions, took - tags) for row, took, tags in copies if took not in (0, tags)),
    )


def cause(launch: LaunchRow, key: str) -> str:
    """One line on why ``key`` differs from its prediction in this launch, with how far that is shown in front."""
    if key in ("ldgsts", "ldgsts_off"):
        return _split(launch)
    if key == "ldgsts_wavefronts":
        return _copy_wavefronts(launch)
    if key == "ldgsts_sectors":
        return _copy_sectors(launch)
    if key == "ldgsts_bytes":
        return "open: differs from launch to launch; ncu says no more than 'bytes required'; no longer asked for"
    side, _, what = key.partition("_")
    if side in _BY_INSTRUCTION and what in ("wavefronts", "conflicts"):
        return _beside_the_instructions(launch, side)
    return _OPEN


def _excess(launch: LaunchRow, key: str) -> float | None:
    value = launch.counted.get(key)
    return None if value is None else value - launch.predicted_total(key)


def _beside_the_instructions(launch: LaunchRow, side: str) -> str:
    """The chip's wavefront and conflict counters: what they hold beyond the instructions' own."""
    if exact_wavefronts(launch.counted, side) != launch.predicted_total(f"{side}_wavefronts"):
        return _OPEN
    here = [_excess(launch, f"{side}_{what}") for what in ("wavefronts", "conflicts")]
    conflicts = [_excess(launch, f"{each}_conflicts") for each in _BY_INSTRUCTION]
    arbitration = launch.counted.get("arbitration")
    known = [value for value in conflicts if value is not None]
    if arbitration is None or any(value is None or value < 0 for value in here) or sum(known) > arbitration:
        return "open: by instruction, counted = predicted; what else the chip counts is not shown"
    return "inferred: arbitration in L1 (its counter shows as many or more); by instruction, counted = predicted"


def _split(launch: LaunchRow) -> str:
    """Copies with any lane on, and with all off: the chip's split; both together, and the requests made, are exact."""
    excess = [_excess(launch, key) for key in ("ldgsts", "ldgsts_off")]
    requests = launch.counted.get("ldgsts_requests")
    if None in excess or sum(value or 0 for value in excess) != 0 or requests != launch.predicted_total("ldgsts"):
        return _OPEN
    off, issued, on = launch.counted.get("lds_off"), launch.opcodes.get("LDS"), launch.counted.get("lds")
    also = off is not None and issued is not None and on is not None and off < issued - on
    reads_low = "inferred: the chip's count of 'all lanes off' reads low" + (", for LDS too" if also else "")
    return f"{reads_low}; requests, and on + off, are exact"


def _copy_wavefronts(launch: LaunchRow) -> str:
    """Wavefronts are one a line, except those of two groups of instructions, which the record shows one by one.

    The registers are from the disassembly of sm_90: with every lane off, a copy counts 32 where its address registers
    hold fragments by then, 4 where the pointer to natural B stays.
    """
    copies, off = copies_by_instruction(launch.addresses), launch.predicted_total("ldgsts_off")
    if copies is None or not off or copies.wavefronts != launch.counted.get("ldgsts_wavefronts"):
        return _OPEN
    if copies.lines != launch.predicted_total("ldgsts_wavefronts") or copies.beyond_total > _LANES * off:
        return _OPEN
    each = copies.beyond_total / off
    return (
        f"proven by instruction: the first tile's copies count 0 ({-copies.uncounted_lines:+,d}; why is open), those "
        f"with every lane off {each:.6g} each ({copies.beyond_total:+,d}); lines read are exact"
    )


def _copy_sectors(launch: LaunchRow) -> str:
    """The same copies: no sectors for the first tile; with every lane off as many as the lines seen there can hold."""
    copies, off = copies_by_instruction(launch.addresses), launch.predicted_total("ldgsts_off")
    made = launch.predicted_total("ldgsts")
    if copies is None or not copies.beyond or not off or not made:
        return _OPEN
    off_each = off // sum(instructions for instructions, _ in copies.beyond)
    # A copy with lanes off touches at most a sector a lane, and four sectors a line.
    idle = sum(n * min(_LANES * off_each, _SECTORS_A_LINE * excess) for n, excess in copies.beyond)
    first = copies.uncounted * launch.predicted_total("ldgsts_sectors") // made
    if _excess(launch, "ldgsts_sectors") != idle - first:
        return _OPEN
    return (
        f"inferred: the same copies, the first tile's 0 ({-first:+,d}), those with every lane off {idle / off:.4g} "
        f"each ({idle:+,d}); adds up to the last sector"
    )


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
