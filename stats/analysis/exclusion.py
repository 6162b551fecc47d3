"""Which blocks do not count? A whole block, all its arms, by a rule that looks at neither the arm nor the figure.

The rule is stated before the run (the ``exclusion`` entry of the config, or the default here): a throttle reason, a
measured clock far from the run's, another process on the GPU. The trap: dropping slow cells halves a true effect, and
dropping one arm's cells makes one. A power cap is not in the default: it is what a hungry arm does to itself, and the
ratio in SM cycles beside the ratio in time is the answer to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from stats.analysis.grid import Flags, Grid
from stats.analysis.intervals import Floats
from stats.base.errors import UserError

# Nothing ran, or somebody set the clock; and the power cap (see above). Any other reason, known or not, excludes.
ALLOWED_REASONS = ("gpu_idle", "applications_clocks_setting", "display_clock_setting", "sw_power_cap")


@dataclass(frozen=True)
class ExclusionRule:
    """The blind rule: every throttle reason but ``allowed_reasons``, a clock off by more, any other process.

    ``clock_tolerance_percent`` bounds the mean measured clock of a block against the median block of the run. Above
    ``limit_percent`` excluded blocks the run is unreliable.
    """

    allowed_reasons: tuple[str, ...] = ALLOWED_REASONS
    clock_tolerance_percent: float = 5.0
    other_processes: bool = True
    limit_percent: float = 20.0


@dataclass(frozen=True)
class Exclusion:
    """What the rule did: blocks by reason (a block may have several), and per arm the cells that carried the reason."""

    rule: ExclusionRule
    blocks: int  # whole blocks before the rule
    accepted: int
    incomplete: int  # blocks that lacked an arm: dropped before the rule, not part of its share
    by_reason: dict[str, int]
    by_arm: dict[str, dict[str, int]]

    @property
    def share(self) -> float:
        """Excluded part of the whole blocks, 0 to 1."""
        return 1 - self.accepted / self.blocks if self.blocks else 0.0

    @property
    def unreliable(self) -> bool:
        """More was excluded than a run may lose and still be one."""
        return 100 * self.share > self.rule.limit_percent


def _plain(reason: str) -> str:
    return "".join(letter for letter in reason.lower() if letter.isalnum())


def rule_of(config: Mapping[str, Any]) -> ExclusionRule:
    """The rule that a run's config states under ``exclusion``; the default rule where it states none.

    Raises UserError for an unknown entry or a value of the wrong kind.
    """
    stated = config.get("exclusion")
    if stated is None:
        return ExclusionRule()
    if not isinstance(stated, Mapping):
        raise UserError("config exclusion: is not a mapping; give entries such as clock_tolerance_percent")
    known = {field.name: field.type for field in fields(ExclusionRule)}
    stated = {name: value for name, value in stated.items() if value is not None}
    for name, value in stated.items():
        if name not in known:
            raise UserError(f"config exclusion.{name}: unknown; the entries are {', '.join(known)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name.endswith("_percent") and not (number and value > 0):
            raise UserError(f"config exclusion.{name}: is {value!r}; give a number above 0")
        if name == "other_processes" and not isinstance(value, bool):
            raise UserError(f"config exclusion.{name}: is {value!r}; give true or false")
        if name == "allowed_reasons" and not (
            isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        ):
            raise UserError(f"config exclusion.{name}: is {value!r}; give a list of throttle reasons")
    values = dict(stated)
    if "allowed_reasons" in values:
        values["allowed_reasons"] = tuple(values["allowed_reasons"])
    return ExclusionRule(**values)


def _clock_off(grid: Grid, tolerance_percent: float) -> Flags:
    """Blocks (P, B) whose mean clock over all arms is off the median block; a block without a clock is not judged."""
    clock = np.where(grid.complete[..., None], grid.clock_mhz, np.nan)
    measured = np.isfinite(clock) & (clock > 0)
    total = np.where(measured, clock, 0.0).sum(axis=2)
    count = measured.sum(axis=2)
    mean: Floats = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    if not np.isfinite(mean).any():
        return np.zeros(mean.shape, dtype=bool)
    away = np.abs(mean / np.nanmedian(mean) - 1)
    return np.asarray(np.where(np.isfinite(away), away > tolerance_percent / 100, False))


def apply_rule(grid: Grid, rule: ExclusionRule) -> tuple[Grid, Exclusion]:
    """Narrow the accepted blocks of ``grid`` by ``rule`` and say what went, why, and which arms carried the reason."""
    allowed = {_plain(reason) for reason in rule.allowed_reasons}
    carried: dict[str, Flags] = {}
    names = {reason for reasons in grid.reason_sets for reason in reasons if _plain(reason) not in allowed}
    for name in sorted(names):
        codes = [code for code, reasons in enumerate(grid.reason_sets) if name in reasons]
        carried[name] = np.isin(grid.reasons, codes)
    if rule.other_processes:
        carried["another process on the GPU"] = grid.others > 0
    off = _clock_off(grid, rule.clock_tolerance_percent)
    carried["measured clock out of tolerance"] = np.broadcast_to(off[..., None], grid.reasons.shape)
    excluded = np.zeros(grid.complete.shape, dtype=bool)
    by_reason: dict[str, int] = {}
    by_arm: dict[str, dict[str, int]] = {name: {} for name in grid.arms}
    for name, cells in carried.items():
        cells = cells & grid.complete[..., None]
        blocks = cells.any(axis=2)
        if not blocks.any():
            continue
        excluded |= blocks
        by_reason[name] = int(blocks.sum())
        for i, arm in enumerate(grid.arms):
            by_arm[arm][name] = int(cells[..., i].sum())
    narrowed = grid.accept(~excluded)
    return narrowed, Exclusion(
        rule=rule,
        blocks=int(grid.complete.sum()),
        accepted=int(narrowed.accepted.sum()),
        incomplete=grid.incomplete_blocks,
        by_reason=by_reason,
        by_arm=by_arm,
    )
