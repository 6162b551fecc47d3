"""Does the analysis hold what it says? Its rates in simulated worlds, each with the exact band it must lie in.

Coverage and false positives for every null family, Holm's family-wise error, the size of the equivalence test at its
margin, Stein's coverage, and the power that the plan promises, all by the functions that analyse a record, on many
repetitions at once. Wrong analyses (``stats.proof.controls``) must leave their bands, or the bands prove nothing.
``python -m stats.proof.simulate --reps 10000 --out FILE.json`` records a campaign. The trap: a discrete method cannot
attain .95 or .05, so each is held to the level it attains.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from stats.analysis import intervals
from stats.analysis.effect import log_margin
from stats.analysis.grid import Flags
from stats.analysis.intervals import Floats
from stats.analysis.plan import power_of_verdict
from stats.analysis.stopping import half_width_kept, units_in_all
from stats.analysis.verdicts import detects
from stats.base.errors import BenchError
from stats.proof import controls
from stats.proof.nulls import FAMILIES, NOISE, Design, process_means

Hits: TypeAlias = "Flags | np.bool_"  # numpy's comparisons say that they may be one of the two

EFFECT = log_margin(2.0)  # true effect behind the coverage: a sign error would not cover it
CHUNK = 1000  # repetitions drawn at once, to bound the memory


@dataclass(frozen=True)
class Check:
    """One observed rate, what it must be, and the exact 99.9 % band of that; ``at_most`` drops the lower end.

    A ``control`` is the rate of an analysis known to be wrong: it must lie outside.
    """

    world: str
    quantity: str
    repetitions: int
    rate: float
    expected: float
    low: float
    high: float
    at_most: bool = False
    control: bool = False

    @property
    def inside(self) -> bool:
        """The rate lies in its band."""
        return (self.at_most or self.rate >= self.low) and self.rate <= self.high

    @property
    def holds(self) -> bool:
        """The rate lies where it must: in its band, or for a control out of it."""
        return self.inside != self.control


def check(
    world: str, quantity: str, hits: Hits, expected: float, *, at_most: bool = False, slack: float = 0.0
) -> Check:
    """Hold the share of ``hits`` (repetitions) to ``expected``; ``slack`` is what is not known of that itself."""
    observed = np.atleast_1d(hits)
    low, high = intervals.binomial_band(expected, len(observed))
    return Check(world, quantity, len(observed), float(observed.mean()), expected, low - slack, high + slack, at_most)


def family_means(name: str, repetitions: int, seed: int, design: Design | None = None) -> Floats:
    """Process means (repetitions, processes) of null family ``name``."""
    rng = np.random.default_rng([seed, sorted(FAMILIES).index(name)])
    sizes = [CHUNK] * (repetitions // CHUNK) + ([repetitions % CHUNK] if repetitions % CHUNK else [])
    return np.concatenate([process_means(FAMILIES[name](rng, size, design or Design())) for size in sizes])


def check_family(name: str, repetitions: int, seed: int = 1, alpha: float = 0.05) -> list[Check]:
    """Coverage and false positives of every method in one null family."""
    null = family_means(name, repetitions, seed)
    theta = null + EFFECT
    n = null.shape[1]
    low, high = intervals.t_interval(theta, 1 - alpha)
    hl_low, hl_high, attained = intervals.hodges_lehmann_interval(theta, 1 - alpha)
    t_null = intervals.t_interval(null, 1 - alpha)
    step = intervals.attainable_p(n)
    return [
        check(name, "coverage of t", (low <= EFFECT) & (high >= EFFECT), 1 - alpha),
        check(name, "coverage of Hodges-Lehmann", (hl_low <= EFFECT) & (hl_high >= EFFECT), attained),
        check(name, "false positives of t", (t_null[0] > 0) | (t_null[1] < 0), alpha),
        check(
            name, "false positives of exact p", intervals.sign_flip_p(null) <= alpha, step * int(alpha / step + 1e-9)
        ),
        check(name, "false DIFFERENT", detects(null, alpha=alpha), alpha, at_most=True),
    ]


def holm_rejects(p: Floats, alpha: float = 0.05) -> Flags:
    """Holm's rejections for families of p-values (repetitions, m): the same as statsmodels', for all rows at once."""
    m = p.shape[1]
    order = np.argsort(p, axis=1)
    passed = np.take_along_axis(p, order, axis=1) <= alpha / (m - np.arange(m))
    rejected = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(passed, axis=1), axis=1)
    return rejected


def _family_p(repetitions: int, effects: Sequence[float], seed: int, processes: int = 8) -> Floats:
    """Exact p of arms with these effects against one reference that they share: dependent, as in a run."""
    rng = np.random.default_rng([seed, len(effects)])
    arms = NOISE * rng.standard_normal((repetitions, len(effects) + 1, processes))
    return intervals.sign_flip_p(arms[:, :-1] - arms[:, -1:] + np.array(effects)[:, None])


def holm_error(repetitions: int, seed: int = 1) -> list[Check]:
    """Family-wise error of Holm on the exact p of four comparisons, none or two of them true."""
    none = holm_rejects(_family_p(repetitions, [0, 0, 0, 0], seed)).any(axis=1)
    some = holm_rejects(_family_p(repetitions, [0, 0, 0.1, 0.1], seed))[:, :2].any(axis=1)
    return [
        check("family of four, no effect", "family-wise error of Holm", none, 0.05, at_most=True),
        check("family of four, two effects", "family-wise error of Holm", some, 0.05, at_most=True),
    ]


def tost_size(repetitions: int, seed: int = 1, processes: int = 8) -> list[Check]:
    """How often EQUIVALENT is said of an effect that lies exactly on the margin, above and below."""
    rng = np.random.default_rng([seed, 77])
    margin, spread = log_margin(0.5), log_margin(0.5) / 8
    found = []
    for side, true in (("+", margin), ("-", -margin)):
        theta = true + spread * rng.standard_normal((repetitions, processes))
        low, high = intervals.t_interval(theta, 0.9)
        hl_low, hl_high, _ = intervals.hodges_lehmann_interval(theta, 0.9)
        by_t = (-margin < low) & (high < margin)
        both = by_t & (-margin < hl_low) & (hl_high < margin)
        found.append(check(f"effect at {side}margin", "size of TOST", by_t, 0.05))
        found.append(check(f"effect at {side}margin", "false EQUIVALENT", both, 0.05, at_most=True))
    return found


def stein(repetitions: int, seed: int = 1, first: int = 8, half_width: float = 0.6) -> list[Check]:
    """Coverage of Stein's two stages for units of standard deviation 1, and how often the half-width is kept."""
    rng = np.random.default_rng([seed, 88])
    stage = rng.standard_normal((repetitions, first))
    spread = stage.std(axis=1, ddof=1)
    total = units_in_all(spread, first, half_width)
    rest = np.sqrt(total - first) * rng.standard_normal(repetitions)  # the sum of the second stage
    mean = (stage.sum(axis=1) + rest) / total
    half = half_width_kept(spread, first, total)
    return [
        check("Stein's two stages", "coverage", np.abs(mean) <= half, 0.95),
        check("Stein's two stages", "half-width kept", half <= half_width * (1 + 1e-12), 1.0),
    ]


def power_kept(repetitions: int, seed: int = 1) -> list[Check]:
    """Rate of DIFFERENT for effects in runs of cells, against the power that the plan promises for them."""
    found = []
    design = Design()
    between = 0.2 * NOISE
    spread = float(np.sqrt(between**2 + 2 * NOISE**2 / design.blocks))
    for size in (1.0, 1.4, 2.0):
        effect = size * spread
        promised = power_of_verdict(effect, spread, design.processes)
        rng = np.random.default_rng([seed, int(10 * size)])
        preference = between * rng.standard_normal((repetitions, design.processes))
        theta = family_means("normal", repetitions, seed + int(10 * size)) + preference + effect
        # The promise is itself a simulated rate: its own band is added.
        low, high = intervals.binomial_band(promised, 8_000)
        world = f"effect of {size:g} standard deviations of a process mean"
        found.append(check(world, "power promised", detects(theta), promised, slack=(high - low) / 2))
    return found


def negative_controls(repetitions: int, seed: int = 1) -> list[Check]:
    """The rates of wrong analyses, against the bands that the right ones stay in."""
    found = controls.controls(repetitions, seed)
    return [replace(check(world, wrong, hits, expected), control=True) for world, wrong, hits, expected in found]


def campaign(repetitions: int, seed: int = 1) -> list[Check]:
    """Every check of this module, controls last."""
    found = [one for name in FAMILIES for one in check_family(name, repetitions, seed)]
    for part in (holm_error, tost_size, stein, power_kept, negative_controls):
        found += part(repetitions, seed)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, write it as JSON, and return 1 when a rate lies outside its band or a control inside."""
    parser = argparse.ArgumentParser(
        prog="python -m stats.proof.simulate", description="Check the rates of the analysis."
    )
    parser.add_argument("--reps", type=int, default=10_000, help="repetitions of each world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, metavar="FILE.json", help="write the rates here")
    asked = parser.parse_args(arguments)
    if asked.reps < 100 or asked.seed < 0:
        parser.error("--reps takes at least 100, --seed at least 0")
    start = time.monotonic()
    found = campaign(asked.reps, asked.seed)
    proper, wrong = ([one for one in found if one.control is control] for control in (False, True))
    failed = [[one for one in part if not one.holds] for part in (proper, wrong)]
    for one in found:
        low = 0.0 if one.at_most else one.low
        mark = "" if one.inside else "  OUTSIDE"
        mark += "" if not one.control else ", as a control must be" if one.holds else "  INSIDE: a control must not be"
        print(f"{one.world:45s} {one.quantity:34s} {one.rate:.4f}  [{low:.4f}, {one.high:.4f}]{mark}")
    print(
        f"{len(proper)} rates, {len(failed[0])} outside their 99.9 % bands; "
        f"{len(wrong)} controls, {len(failed[1])} inside; {time.monotonic() - start:.0f} s"
    )
    if asked.out is not None:
        rows, control_rows = ([{**asdict(one), "inside": one.inside} for one in part] for part in (proper, wrong))
        data = {"repetitions": asked.reps, "seed": asked.seed, "checks": rows, "controls": control_rows}
        text = json.dumps(data, indent=1, allow_nan=False)
        try:
            asked.out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise BenchError(f"{asked.out}: cannot be written ({error.strerror})") from None
    return 1 if any(failed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as stop:
        print(f"python -m stats.proof.simulate: {stop}", file=sys.stderr)
        sys.exit(2)
