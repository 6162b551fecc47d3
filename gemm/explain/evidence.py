"""Which records speak about this GPU, and what does each say: cycles per warp k-step with an interval?

Records are told by their tool: the micro-benchmark by blocks per SM, the GEMM, the stream run, the instruction
and the contention benchmark, counters. Newer records win. The trap: figures of two GPUs in one explanation explain
neither, so records of several devices are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemm.kernel.variants import LADDER_PAIRS, Kernel
from micro.model.arm_names import MMA_ARM, Work, arm_name
from stats.analysis.levels import ArmLevels, Level
from stats.base.errors import UserError
from stats.record.reader import read_json, read_record
from stats.record.schema import CellRow, Record

MICRO, GEMM, STREAM = "micro-bench", "gemm-bench", "gemm-bench explain stream"
INSTRUCTIONS, CONTENTION = "micro-bench instructions", "micro-bench contention"
_WARPS_PER_BLOCK, _MMA_K, _BLOCK_TILE = 8, 16, 128  # of layout.cuh; a test holds them equal


def warp_ksteps_per_sm(m: int, n: int, k: int, sm_count: int) -> float:
    """Warp k-steps that an SM does on average in one launch of the GEMM."""
    return (m // _BLOCK_TILE) * (n // _BLOCK_TILE) * _WARPS_PER_BLOCK * (k // _MMA_K) / sm_count


@dataclass
class Evidence:
    """Records of one GPU, newest first within each kind."""

    micro: dict[int, Record] = field(default_factory=dict)  # blocks per SM -> record
    gemm: list[Record] = field(default_factory=list)
    stream: Record | None = None
    instructions: Record | None = None
    contention: Record | None = None
    counters: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)
    # By id of the record it holds.
    _levels: dict[int, ArmLevels] = field(default_factory=dict, repr=False, compare=False)

    def records(self) -> Iterator[Record]:
        """All records of trials."""
        yield from self.micro.values()
        yield from self.gemm
        yield from (record for record in (self.stream, self.instructions, self.contention) if record is not None)

    @property
    def device(self) -> str | None:
        """Name of the GPU, None without records."""
        return next((r.header.device.name for r in self.records() if r.header.device), None)

    @property
    def arch(self) -> int | None:
        """80, 90, ...; None without records."""
        found = next((r.header.device for r in self.records() if r.header.device), None)
        return found.arch if found else None

    @property
    def sm_count(self) -> int | None:
        """SMs of the GPU."""
        return next((r.header.device.sm_count for r in self.records() if r.header.device), None)

    def micro_level(self, variant: str, work: Work, blocks: int = 2, swizzle: bool = True) -> Level | None:
        """SM cycles per warp k-step of a micro arm, None where no record holds it."""
        record = self.micro.get(blocks)
        name = MMA_ARM if work is Work.MMA else arm_name(variant, swizzle, work)
        return self._level(record, name, lambda cell: float(cell.values.get("cycles_per_kstep", math.nan)))

    def stream_level(self, arm: str, figure: str) -> Level | None:
        """A figure of the stream run."""
        return self._level(self.stream, arm, lambda cell: float(cell.values.get(figure, math.nan)))

    def instruction_level(self, arm: str) -> Level | None:
        """SM cycles per instruction of the instruction benchmark."""
        return self._level(
            self.instructions, arm, lambda cell: float(cell.values.get("cycles_per_instruction", math.nan))
        )

    def contention_level(self, arm: str) -> Level | None:
        """SM cycles per warp pass of the contention benchmark."""
        return self._level(self.contention, arm, lambda cell: float(cell.values.get("cycles_per_pass", math.nan)))

    def gemm_record(self, *arms: str, shape: tuple[int, int, int] = (4096, 4096, 4096)) -> Record | None:
        """The hot-L2 GEMM record of this shape that holds all these arms.

        Of several the one that declared the ladder's pairs among them (of one arm: with it), as ladder-a does; of those
        the one with the most processes, then with the fewest other arms, then the newest.
        """
        pairs = {pair for pair in LADDER_PAIRS if (set(arms) & set(pair) if len(arms) == 1 else set(pair) <= set(arms))}

        def rank(record: Record) -> tuple[int, int, int]:
            undeclared = pairs - {(a, b) for a, b in record.header.comparisons}
            return len(undeclared), -record.header.processes, len(record.header.arms)

        fitting = [
            record
            for record in self.gemm
            if tuple(record.header.workload.get(key) for key in "mnk") == shape
            and record.header.l2_mode == "hot"
            and set(arms) <= {cell.arm for cell in record.cells}
        ]
        return min(fitting, key=rank, default=None)

    def gemm_level(self, arm: str, record: Record | None = None) -> Level | None:
        """SM cycles per warp k-step of a GEMM arm, waves and epilogue included."""
        record = record or self.gemm_record(arm)
        if record is None or record.header.device is None:
            return None
        workload = record.header.workload
        ksteps = warp_ksteps_per_sm(workload["m"], workload["n"], workload["k"], record.header.device.sm_count)
        return self._level(record, arm, lambda cell: cell.sm_cycles / cell.launches / ksteps)

    def _level(self, record: Record | None, arm: str, figure: Callable[[CellRow], float]) -> Level | None:
        if record is None:
            return None
        if id(record) not in self._levels:
            self._levels[id(record)] = ArmLevels(record)
        level = self._levels[id(record)].of(arm, figure)
        return None if math.isnan(level.mean) else level

    def resident_blocks(self, kernel: Kernel) -> int:
        """Blocks per SM as a record read them back, else what the launch bounds ask for."""
        for record in self.gemm:
            for arm in record.header.arms:
                if arm.name == kernel.name and "resident_blocks" in arm.static:
                    return int(arm.static["resident_blocks"])
        return kernel.blocks_per_sm


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(found for kind in ("*.jsonl", "*.jsonl.gz", "*.json") for found in path.glob(kind))
        else:
            yield path


def _counters(path: Path) -> dict[str, Any] | None:
    try:
        data = read_json(path, "")
    except UserError:
        return None
    return data if isinstance(data, dict) and data.get("kind") == "counters" else None


def gather(paths: Sequence[Path], *, named: bool) -> Evidence:
    """Read records from files and folders. ``named``: a person named them, so one that is no record is an error.

    Raises UserError for unreadable files and for records of more than one GPU.
    """
    found = Evidence()
    records = []
    for path in _files(paths):
        if path.suffix == ".json":
            counters = _counters(path)
            if counters is not None:
                found.counters.append((path, counters))
            elif named and path in paths:
                raise UserError(f"{path}: neither a record nor counters; give .jsonl records or a counters .json")
            continue
        try:
            records.append(read_record(path))
        except UserError:
            if named:
                raise
    records.sort(key=lambda record: record.header.created_utc, reverse=True)
    for record in records:
        tool = record.header.tool
        if tool == MICRO:
            found.micro.setdefault(int(record.header.workload.get("blocks_per_sm", 2)), record)
        elif tool == GEMM:
            found.gemm.append(record)
        elif tool == STREAM:
            found.stream = found.stream or record
        elif tool == INSTRUCTIONS:
            found.instructions = found.instructions or record
        elif tool == CONTENTION:
            found.contention = found.contention or record
    devices = {r.header.device.name for r in found.records() if r.header.device}
    if len(devices) > 1:
        raise UserError(f"records of several GPUs ({', '.join(sorted(devices))}): give those of one with --record")
    return found
