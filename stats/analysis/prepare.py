"""What does a record hold that an analysis may use? Accepted blocks, process means, arm summaries, and what is odd.

Everything that compares - arms within a record, two records, a plan - starts here, so that all of them exclude the same
blocks and refuse the same figures. The trap: a figure that is missing (null) is a block less, but a figure that is no
duration, or an arm that reads the same in every cell, says that the clock is broken, and nothing is computed from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from stats.analysis.exclusion import Exclusion, ExclusionRule, apply_rule, rule_of
from stats.analysis.grid import Grid, Metric, lay_out
from stats.analysis.intervals import Floats
from stats.analysis.results import ArmSummary, RecordRef
from stats.analysis.verdicts import Caution
from stats.base.errors import BenchError
from stats.record.clock_check import judged_label
from stats.record.schema import CellRow, Record

Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Prepared:
    """A record laid out, narrowed by its rule, with what was noticed on the way."""

    record: Record
    grid: Grid
    exclusion: Exclusion
    cautions: tuple[Caution, ...]


@dataclass(frozen=True)
class PairMeans:
    """Log-ratios of a pair: one mean a process, the series behind each, and why they cannot be used, if so."""

    means: Floats
    series: list[Floats]
    unmeasured: int
    fault: str | None = None


def prepare(record: Record, rule: ExclusionRule | None = None) -> Prepared:
    """Lay a record out and apply the blind rule (that of its config unless given)."""
    grid, exclusion = apply_rule(lay_out(record), rule or rule_of(record.header.config))
    return Prepared(record, grid, exclusion, tuple(_run_cautions(record, grid, exclusion)))


def accepted_blocks(grid: Grid) -> frozenset[tuple[int, int, int]]:
    """(process, attempt, block) of every accepted block, as cells are numbered."""
    return frozenset(
        (grid.processes[row], grid.attempts[row], grid.blocks[column]) for row, column in np.argwhere(grid.accepted)
    )


def accepted_cells(record: Record) -> list[CellRow]:
    """The cells of accepted blocks by the rule of the run, in the order of the record."""
    accepted = accepted_blocks(prepare(record).grid)
    return [cell for cell in record.cells if (cell.process, cell.attempt, cell.block) in accepted]


def require_accepted(record: Record) -> None:
    """Raise BenchError with the count of every reason when the rule left no block of the record."""
    exclusion = prepare(record).exclusion
    if exclusion.accepted == 0:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in exclusion.by_reason.items())
        raise BenchError(
            f"{record.name}: 0 accepted of {exclusion.blocks} blocks ({reasons or 'none whole'}); nothing is reported"
        )


def _run_cautions(record: Record, grid: Grid, exclusion: Exclusion) -> list[Caution]:
    found = []
    name, planned = record.name, record.header.processes
    if record.torn_line is not None:
        found.append(Caution("torn_line", f"{name}: line {record.torn_line} is cut off and was passed over"))
    whole, wanted = int(grid.complete.sum()), planned * record.header.blocks
    if whole < wanted:
        message = (
            f"{name}: {whole} of {wanted} planned blocks are whole, in {len(grid.processes)} of {planned} processes"
        )
        dropped = f"{grid.incomplete_blocks} incomplete blocks dropped"
        found.append(Caution("incomplete_run", f"{message}; {dropped}: the run ended early or was interrupted"))
    if grid.unused_attempts:
        message = f"{name}: {grid.unused_cells} cells of {grid.unused_attempts} aborted or repeated attempts"
        found.append(Caution("unused_attempts", f"{message} stay in the record and are not used"))
    for arm in grid.absent_arms:
        found.append(Caution("absent_arm", f"{name}: arm {arm} is declared, but has no cell and no reason"))
    counts = grid.accepted.sum(axis=1)
    counts = counts[counts > 0]
    if len(counts) and counts.min() * 2 < counts.max():
        message = f"{name}: processes hold between {counts.min()} and {counts.max()} accepted blocks"
        found.append(Caution("uneven_processes", f"{message}, and count alike"))
    reasons = ", ".join(f"{reason}: {count}" for reason, count in exclusion.by_reason.items())
    if exclusion.accepted == 0:
        why = f" ({reasons})" if reasons else ""
        found.append(Caution("none_accepted", f"{name}: 0 accepted of {exclusion.blocks} whole blocks{why}"))
    elif exclusion.unreliable:
        found.append(Caution("unreliable", f"{name}: UNRELIABLE, {100 * exclusion.share:.0f} % excluded ({reasons})"))
    capped = [i for i, names in enumerate(grid.reason_sets) if any("power" in reason.lower() for reason in names)]
    share = np.isin(grid.reasons, capped)[grid.accepted]
    if share.any():
        arms = ", ".join(f"{arm} {100 * share[:, i].mean():.0f} %" for i, arm in enumerate(grid.arms))
        message = f"{name}: accepted cells ran under a power limit ({arms})"
        found.append(Caution("power_limited", f"{message}: time includes the clock it left, cycles do not"))
    return found


def bad_figure(prepared: Prepared, arm: str, metric: Metric) -> str | None:
    grid = prepared.grid
    values = grid.metric(metric)[..., grid.arm(arm)]
    bad = grid.accepted & ~np.isnan(values) & ((values <= 0) | np.isinf(values))
    if bad.any():
        p, b = (int(i[0]) for i in np.nonzero(bad))
        return f"arm {arm} reads {values[p, b]:g} in process {grid.processes[p]}: not a duration"
    used = values[grid.accepted & np.isfinite(values)]
    if len(used) > 1 and (used == used[0]).all():
        return f"arm {arm} reads exactly the same {metric} in all {len(used)} cells: the clock does not resolve it"
    return None


def pair_means(prepared: Prepared, pair: Pair, metric: Metric) -> PairMeans:
    """Mean log(a / b) of each process over its accepted blocks in which both arms have the metric."""
    grid, none = prepared.grid, np.empty(0)
    reasons = {skip.arm: skip.reason for skip in prepared.record.skips}
    for arm in pair:
        if arm not in grid.arms:
            why = f"was skipped: {reasons[arm]}" if arm in reasons else "has no cells"
            return PairMeans(none, [], 0, f"arm {arm} {why}")
    if prepared.exclusion.accepted == 0:
        return PairMeans(none, [], 0, f"0 accepted of {prepared.exclusion.blocks} whole blocks")
    for arm in pair:
        fault = bad_figure(prepared, arm, metric)
        if fault:
            return PairMeans(none, [], 0, fault)
    values = grid.metric(metric)
    a, b = (values[..., grid.arm(arm)] for arm in pair)
    usable = grid.accepted & np.isfinite(a) & np.isfinite(b)
    unmeasured = int(grid.accepted.sum() - usable.sum())
    if not usable.any():
        return PairMeans(none, [], unmeasured, f"no accepted block has a {metric} figure of both arms")
    d = np.log(np.where(usable, a, 1.0)) - np.log(np.where(usable, b, 1.0))
    series = [d[p][usable[p]] for p in range(len(d)) if usable[p].any()]
    return PairMeans(np.array([part.mean() for part in series]), series, unmeasured)


def arm_summaries(prepared: Prepared) -> list[ArmSummary]:
    """Geometric means per launch and mean clock of each arm over the accepted blocks."""

    def geometric(values: Floats) -> float:
        values = values[np.isfinite(values) & (values > 0)]
        return float(np.exp(np.log(values).mean())) if len(values) else math.nan

    grid, found = prepared.grid, []
    for i, arm in enumerate(grid.arms):
        keep = grid.accepted
        time, cycles = geometric(grid.time_ns[..., i][keep]), geometric(grid.sm_cycles[..., i][keep])
        clock = grid.clock_mhz[..., i][keep]
        clock = clock[np.isfinite(clock) & (clock > 0)]
        mhz = float(clock.mean()) if len(clock) else 1e3 * cycles / time
        found.append(ArmSummary(prepared.record.name, arm, int(keep.sum()), time, cycles, mhz, len(clock) > 0))
    return found


def reference_of(prepared: Prepared) -> RecordRef:
    """What outputs say of the record."""
    header = prepared.record.header
    return RecordRef(
        name=prepared.record.name,
        run_id=header.run_id,
        tool=header.tool,
        created_utc=header.created_utc,
        device=header.device.name if header.device else "none",
        source_hash=header.source_hash,
        git_commit=header.git_commit + ("+dirty" if header.git_dirty else ""),
        clocks=judged_label(prepared.record),
        l2_mode=header.l2_mode,
        processes=int(prepared.grid.accepted.any(axis=1).sum()),
        processes_planned=header.processes,
        blocks_planned=header.blocks,
        seed=header.seed,
        workload=header.workload,
    )
