"""One record as reports use it: its cells, its analysis, and whether its kernels are still those of today.

Read once and analysed once, however many tables, figures and numbers of a README come from it. The trap: a table is
true of the sources that were measured; when today's differ, everything made from the record must say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np

from stats.analysis.intervals import Floats
from stats.analysis.levels import Level, level_of
from stats.analysis.prepare import Prepared, accepted_blocks, prepare
from stats.analysis.results import Analysis
from stats.record.clock_check import judged_label
from stats.record.freshness import Freshness, freshness
from stats.record.provenance import PACKAGE_ROOT
from stats.record.reader import read_record
from stats.record.schema import CellRow, Header, Record


class Source:
    """A record and what is computed from it, each once."""

    def __init__(self, record: Record, *, shown_as: str | None = None, root: Path = PACKAGE_ROOT) -> None:
        self.record = record
        self.root = root
        self.shown_as = shown_as if shown_as is not None else record.name

    @property
    def header(self) -> Header:
        """The header of the record."""
        return self.record.header

    @cached_property
    def freshness(self) -> Freshness:
        """Whether the kernels of the record are those of today."""
        header = self.header
        return freshness(header.source_hash, header.sources, header.build_flags, self.root)

    @cached_property
    def prepared(self) -> Prepared:
        """The cells laid out and narrowed by the rule of the run."""
        return prepare(self.record)

    @cached_property
    def analysis(self) -> Analysis:
        """The declared family, A/A, exclusions, diagnostics, cautions."""
        from stats.analysis.compare import analyse

        return analyse(self.record)

    @cached_property
    def _accepted(self) -> frozenset[tuple[int, int, int]]:
        return accepted_blocks(self.prepared.grid)

    def accepts(self, cell: CellRow) -> bool:
        """Whether the analysis used the block of this cell."""
        return (cell.process, cell.attempt, cell.block) in self._accepted

    def level(self, arm: str, figure: Callable[[Floats], Floats] | None = None, metric: str = "time") -> Level:
        """The level of an arm over its accepted blocks: time in ns (or cycles) a launch, or ``figure`` of that."""
        grid = self.prepared.grid
        values = (grid.time_ns if metric == "time" else grid.sm_cycles)[..., grid.arm(arm)]
        values = values if figure is None else figure(values)
        by_process = []
        for process in range(len(grid.processes)):
            kept = values[process][grid.accepted[process] & np.isfinite(values[process])]
            if len(kept):
                by_process.append([float(value) for value in kept])
        return level_of(by_process) if by_process else Level(math.nan, math.nan, math.nan, 0.95, 0, "processes")

    @property
    def caption(self) -> str:
        """Device, clocks, size and origin of the run in one line: what stands under every table and figure."""
        header = self.header
        device = header.device
        where = f"{device.name} (sm_{device.compute_capability.replace('.', '')})" if device else "no GPU"
        grid = self.prepared.grid
        processes = int(grid.accepted.any(axis=1).sum())
        blocks = int(grid.accepted.sum())
        fresh = "1 process (conditional on it)" if processes == 1 else f"{processes} fresh processes"
        excluded = self.prepared.exclusion.blocks - self.prepared.exclusion.accepted
        parts = [
            where,
            f"n = {fresh}, {blocks} blocks of {len(grid.arms)} arms"
            + (f" ({excluded} excluded by rule)" if excluded else ""),
            f"clocks: {self.clocks}",
            f"L2 {header.l2_mode}",
            f"record {self.shown_as}" + ("" if header.source_hash == "none" else f", sources {header.source_hash}"),
        ]
        return "; ".join(parts)

    @property
    def clocks(self) -> str:
        """What was done to the clocks, and what the cells measured."""
        grid = self.prepared.grid
        clock = grid.clock_mhz[grid.accepted]
        clock = clock[np.isfinite(clock) & (clock > 0)]
        if not len(clock):
            return f"{judged_label(self.record)}, not measured"
        low, high = round(float(clock.min())), round(float(clock.max()))
        return (
            f"{judged_label(self.record)}, {low}–{high} MHz measured"
            if low != high
            else (f"{judged_label(self.record)}, {low} MHz measured")
        )


class Library:
    """Records by path, each read once; ``folder`` is what relative paths start from and are shown relative to."""

    def __init__(self, folder: Path | None = None, root: Path = PACKAGE_ROOT) -> None:
        self.folder = folder
        self.root = root
        self._sources: dict[Path, Source] = {}

    def source(self, name: str | Path) -> Source:
        """The record at ``name``; raises UserError as ``read_record`` does."""
        path = Path(name) if self.folder is None else self.folder / name
        if path not in self._sources:
            self._sources[path] = Source(read_record(path), shown_as=Path(name).as_posix(), root=self.root)
        return self._sources[path]
