"""What did the campaigns find? From records: how often a verdict was wrong, or right, against what was promised.

Needs no GPU. A/A: the t interval must exclude 0 as often as alpha says, and the verdict DIFFERENT as often as its exact
parts allow at this number of processes; both within the exact 99.9 % band of a binomial. Injected: the interval must
cover the truth, log(1 + injected / cell), and the verdict come at the promised rate. The trap: the truth is known in
cycles. In time it is the same only while the clock is, and a spin draws less power than a product, so its clock rises:
coverage is judged in cycles alone, and the measured change of the clock stands beside the error in time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gemm.truth.campaigns import CAMPAIGN_TOOL, pair_names
from stats.analysis.effect import Inference
from stats.analysis.inference import holm, infer
from stats.analysis.prepare import pair_means, prepare
from stats.analysis.verdicts import Verdict, decide, detects
from stats.base.errors import UserError
from stats.base.tables import Column
from stats.record.attempts import final_cells
from stats.record.schema import Record

Metric = Literal["time", "cycles"]
ALPHA = 0.05
BAND = 0.999  # of the binomial that a count must lie in
SIMULATED = 4_000  # standard error of a rate below .008; a band of 200 verdicts is ten times as wide
_BAND_SAYS = "where the count before it lies in 99.9 of 100 campaigns if the promise holds"
AA_COLUMNS = [
    Column("metric", "in", align="left"),
    Column("verdicts", "A/A verdicts", "d"),
    Column("excludes_zero", "t excludes 0", "d", legend="95 % t intervals without 0"),
    Column("band", "99.9 % band", legend=_BAND_SAYS),
    Column("different", "DIFFERENT", "d", legend="verdicts that call equal arms different"),
    Column("different_band", "99.9 % band"),
    Column("largest_percent", "largest |effect| %", ".3f"),
    Column("half_width_percent", "median half-width %", ".3f", legend="of the 95 % t interval"),
    Column("inside", "inside", align="left", legend="both counts in their bands"),
]
INJECT_COLUMNS = [
    Column("effect_percent", "injected %", "g", short="in-jected %"),
    Column("metric", "in", align="left"),
    Column("verdicts", "verdicts", "d", short="ver-dicts"),
    Column("detected", "DIFFERENT", "d", legend="verdicts that name a difference"),
    Column("promised_percent", "promised %", ".1f", short="prom-ised %", legend="how often they should"),
    Column("detected_band", "99.9 % band", legend=_BAND_SAYS),
    Column("covered", "interval covers", "d", short="inter-val covers", legend="95 % t intervals that hold the truth"),
    Column("covered_band", "99.9 % band"),
    Column("truth_percent", "truth %", ".3f"),
    Column("error_percent", "mean error %", "+.3f"),
    Column(
        "clock_percent", "clock change %", "+.3f", legend="of the longer arm's clock, which in time adds to the error"
    ),
    Column("inside", "inside", align="left", short="in-side", legend="both counts in their bands"),
]


@dataclass(frozen=True)
class Judged:
    """One pair in one metric: what was injected, what is true (log-ratio) and what was inferred."""

    effect_percent: float
    metric: Metric
    truth: float
    inference: Inference
    different: bool
    clock: float = math.nan  # log-ratio of the measured clocks, the longer arm's over the other's
    record: str = ""


def _truths(record: Record) -> dict[str, float]:
    """log(1 + injected / cell) by the name of the longer arm: mean over processes, from the pair's own base cells."""
    cycles: dict[tuple[str, int], list[float]] = defaultdict(list)
    injected: dict[tuple[str, int], float] = {}
    for cell in final_cells(record):
        cycles[cell.arm, cell.process].append(cell.sm_cycles / cell.launches)
        injected[cell.arm, cell.process] = cell.values.get("injected_cycles", 0.0)
    truths = {}
    for longer, base in pair_names(record.header.config["effects_percent"]):
        logs = [
            math.log1p(injected[longer, process] / float(np.mean(values)))
            for (arm, process), values in cycles.items()
            if arm == base and (longer, process) in injected
        ]
        truths[longer] = float(np.mean(logs)) if logs else math.nan
    return truths


def _clock_changes(record: Record) -> dict[tuple[str, str], float]:
    """log(clock of the longer arm / clock of its base) by pair, from the means of the measured clock."""
    clocks: dict[str, list[float]] = defaultdict(list)
    for cell in final_cells(record):
        clocks[cell.arm].append(cell.clock_mhz)
    return {
        (longer, base): math.log(float(np.mean(clocks[longer])) / float(np.mean(clocks[base])))
        if longer in clocks and base in clocks
        else math.nan
        for longer, base in pair_names(record.header.config["effects_percent"])
    }


def judge(records: Sequence[Record]) -> list[Judged]:
    """Every pair of every record in both metrics, each judged alone. Raises UserError for another kind of record."""
    found = []
    for record in records:
        if record.header.tool != CAMPAIGN_TOOL:
            raise UserError(
                f"{record.name}: a record of {record.header.tool}, not of a campaign (gemm-bench aa, inject)"
            )
        prepared = prepare(record)
        truths, clocks = _truths(record), _clock_changes(record)
        effects = record.header.config["effects_percent"]
        margin = math.log1p(record.header.margin_percent / 100)
        for pair, effect in zip(pair_names(effects), effects, strict=True):
            for metric in ("time", "cycles"):
                means = pair_means(prepared, pair, metric)
                if means.fault:
                    raise UserError(f"{record.name}: {pair[0]}: {means.fault}")
                inference = holm([infer(means.means, alpha=ALPHA)])[0]
                different = Verdict.DIFFERENT in decide(inference, margin).verdicts
                found.append(Judged(effect, metric, truths[pair[0]], inference, different, clocks[pair], record.name))
    return found


def _band(n: int, rate: float) -> tuple[int, int]:
    from scipy.stats import binom

    tail = (1 - BAND) / 2
    return int(binom.ppf(tail, n, rate)), int(binom.ppf(1 - tail, n, rate))


def _rate_of_verdict(theta: float, spread: float, n: int) -> float:
    """How often ``n`` normal process means around ``theta`` are called DIFFERENT, by simulating the whole verdict."""
    rng = np.random.default_rng(1)
    return float(detects(theta + spread * rng.standard_normal((SIMULATED, n)), alpha=ALPHA).mean())


def _inside(count: int, band: tuple[int, int]) -> bool:
    return band[0] <= count <= band[1]


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def aa_rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """One row per metric over the pairs, all without an effect. Raises UserError for a record of injected effects."""
    for one in judged:
        if one.effect_percent:
            raise UserError(f"{one.record}: a record of injected effects, not of A/A; gemm-bench inject reads it")
    rows = []
    for metric in ("cycles", "time"):
        of_metric = [one for one in judged if one.metric == metric]
        testable = [one for one in of_metric if one.inference.t is not None]
        if not testable:
            continue
        n = len(testable)
        excludes = sum(bool(one.inference.t and one.inference.t.excludes_zero) for one in testable)
        different = sum(one.different for one in testable)
        nominal = _band(n, ALPHA)
        attained = _band(n, _rate_of_verdict(0.0, 1.0, testable[0].inference.n))
        rows.append(
            {
                "metric": metric,
                "verdicts": n,
                "excludes_zero": excludes,
                "band": f"{nominal[0]}–{nominal[1]}",
                "different": different,
                "different_band": f"{attained[0]}–{attained[1]}",
                "largest_percent": max(abs(one.inference.effect_percent) for one in testable),
                "half_width_percent": float(np.median([one.inference.half_width_percent for one in testable])),
                "inside": "yes" if _inside(excludes, nominal) and _inside(different, attained) else "NO",
            }
        )
    return rows


def inject_rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """One row per injected effect and metric. Raises UserError for an A/A record."""
    for one in judged:
        if not one.effect_percent:
            raise UserError(f"{one.record}: a record of A/A, not of injected effects; gemm-bench aa reads it")
    rows = []
    for effect in sorted({one.effect_percent for one in judged}):
        for metric in ("cycles", "time"):
            found = [
                one
                for one in judged
                if one.metric == metric and one.effect_percent == effect and one.inference.t is not None
            ]
            if not found:
                continue
            n = len(found)
            spread = math.sqrt(float(np.mean([one.inference.spread**2 for one in found])))
            truth = float(np.mean([one.truth for one in found]))
            promised = _rate_of_verdict(truth, spread, found[0].inference.n)
            detected = sum(one.different for one in found)
            covered = sum(one.inference.t.low <= one.truth <= one.inference.t.high for one in found if one.inference.t)
            detected_band, covered_band = _band(n, promised), _band(n, 1 - ALPHA)
            known = metric == "cycles"
            as_promised = _inside(detected, detected_band)
            rows.append(
                {
                    "effect_percent": effect,
                    "metric": metric,
                    "verdicts": n,
                    "detected": detected,
                    "promised_percent": 100 * promised,
                    "detected_band": f"{detected_band[0]}–{detected_band[1]}",
                    "covered": covered if known else None,
                    "covered_band": f"{covered_band[0]}–{covered_band[1]}" if known else None,
                    "truth_percent": _percent(truth),
                    "error_percent": float(np.mean([_percent(one.inference.theta - one.truth) for one in found])),
                    "clock_percent": _percent(float(np.mean([one.clock for one in found]))),
                    "inside": "yes" if as_promised and (not known or _inside(covered, covered_band)) else "NO",
                }
            )
    return rows
