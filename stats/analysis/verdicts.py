"""What may be claimed? An Inference and a margin in; a set of verdicts, and warnings as data, out.

DIFFERENT: the primary interval excludes 0. MATERIAL: it lies beyond ±margin. EQUIVALENT: the 90 % interval lies inside
±margin. DIFFERENT and EQUIVALENT can both hold. Each must be what the Hodges-Lehmann companion says too, else the
verdict is INCONCLUSIVE. The traps: a claim smaller than what the same code shows against itself is no claim, and
failing to exclude 0 is not equivalence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from stats.analysis import intervals
from stats.analysis.effect import Inference, Interval, format_p, percent
from stats.analysis.intervals import Floats


class Verdict(str, Enum):
    """The vocabulary of every output."""

    DIFFERENT = "DIFFERENT"
    MATERIAL = "MATERIAL"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    UNTESTABLE = "UNTESTABLE"


@dataclass(frozen=True)
class Caution:
    """A warning that travels with a result: a stable code, and one line for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Decision:
    """The verdicts that hold, in the order of the vocabulary, and what to know about them."""

    verdicts: tuple[Verdict, ...]
    cautions: tuple[Caution, ...] = ()


def _claims(wide: Interval, narrow: Interval, margin: float) -> set[Verdict]:
    claims = set()
    if wide.excludes_zero:
        claims.add(Verdict.DIFFERENT)
    if wide.beyond(margin):
        claims.add(Verdict.MATERIAL)
    if narrow.inside(margin):
        claims.add(Verdict.EQUIVALENT)
    return claims


def _names(claims: set[Verdict]) -> str:
    return " and ".join(verdict.value for verdict in Verdict if verdict in claims) or "neither"


def _out_of_reach(found: Inference) -> Caution | None:
    """The exact p cannot reach alpha: for this comparison alone, or for a family of this size."""
    if found.p_minimum > found.alpha:
        needed = intervals.processes_needed(found.alpha)
        return Caution(
            "p_beyond_reach",
            f"the smallest exact p of {found.n} units is {found.p_minimum:.4g}, above alpha {found.alpha:g}: no "
            f"difference can be declared; {needed} processes are needed",
        )
    if found.p_minimum * found.family > found.alpha:
        return Caution(
            "family_beyond_reach",
            f"the smallest Holm-adjusted p of {found.n} units in a family of {found.family} is "
            f"{min(1.0, found.p_minimum * found.family):.3g}: the Bonferroni interval decides instead",
        )
    return None


def _refusal(found: Inference, beyond_reach: Caution | None, aa_limit: float | None) -> Caution | None:
    """Why a difference that both intervals show may still not be claimed."""
    if beyond_reach and found.t_simultaneous:
        confirmed = found.t_simultaneous.excludes_zero and found.p <= found.alpha
    else:
        confirmed = found.p_holm <= found.alpha
    if not confirmed:
        return Caution(
            "not_confirmed",
            f"the intervals exclude 0, but exact p {format_p(found.p)} (Holm {format_p(found.p_holm)} in a family of "
            f"{found.family}) does not confirm it at {found.alpha:g}",
        )
    if aa_limit is not None and abs(found.theta) < aa_limit:
        return Caution(
            "below_aa",
            f"the effect {found.effect_percent:+.3f} % is smaller than the largest A/A deviation, "
            f"{percent(aa_limit):.3f} %: the claim is refused",
        )
    return None


def decide(found: Inference, margin: float, *, aa_limit: float | None = None) -> Decision:
    """Say which verdicts hold for ``found`` against ±``margin`` (log-ratio), fixed before the run.

    ``aa_limit`` is the largest A/A deviation (log-ratio, >= 0), None where no A/A pair ran. Where Holm's p cannot
    reach alpha in a family of this size, DIFFERENT rests on the Bonferroni interval excluding 0, and a caution says so.
    """
    if found.untestable or not (found.t and found.hl and found.t_tost and found.hl_tost and found.t_simultaneous):
        return Decision((Verdict.UNTESTABLE,), (Caution("untestable", found.untestable or "no interval"),))
    cautions: list[Caution] = []
    claims = _claims(found.t, found.t_tost, margin)
    companion = _claims(found.hl, found.hl_tost, margin)
    beyond_reach = _out_of_reach(found)
    if beyond_reach:
        cautions.append(beyond_reach)
    if found.p_minimum > found.alpha:
        claims -= {Verdict.DIFFERENT, Verdict.MATERIAL}
        companion -= {Verdict.DIFFERENT, Verdict.MATERIAL}
    if claims != companion:
        message = f"the t interval says {_names(claims)}, Hodges-Lehmann says {_names(companion)}"
        cautions.append(Caution("methods_disagree", message))
        claims = set()
    if Verdict.DIFFERENT in claims:
        refusal = _refusal(found, beyond_reach, aa_limit)
        if refusal:
            cautions.append(refusal)
            claims -= {Verdict.DIFFERENT, Verdict.MATERIAL}
        elif not found.t_simultaneous.beyond(margin):
            claims.discard(Verdict.MATERIAL)
    if not claims:
        claims = {Verdict.INCONCLUSIVE}
    return Decision(tuple(verdict for verdict in Verdict if verdict in claims), tuple(cautions))


def passes_aa(found: Inference, margin: float) -> bool | None:
    """A/A passes when both its intervals lie inside ±margin, whether they straddle 0 or not; None: unknown."""
    if found.t_tost is None or found.hl_tost is None:
        return None
    return found.t_tost.inside(margin) and found.hl_tost.inside(margin)


def detects(theta: Floats, *, alpha: float = 0.05, family: int = 1) -> NDArray[np.bool_]:
    """DIFFERENT, as ``decide`` says it without an A/A limit, for many samples at once: ``theta`` (..., n) to (...)."""
    n = theta.shape[-1]
    low, high = intervals.t_interval(theta, 1 - alpha)
    hl_low, hl_high, _ = intervals.hodges_lehmann_interval(theta, 1 - alpha)
    if intervals.attainable_p(n) > alpha:
        return np.zeros(theta.shape[:-1], dtype=bool)
    p = intervals.sign_flip_p(theta)
    found = ((low > 0) | (high < 0)) & ((hl_low > 0) | (hl_high < 0))
    if intervals.attainable_p(n) * family > alpha:
        low, high = intervals.t_interval(theta, 1 - alpha / family)
        return np.asarray(found & (p <= alpha) & ((low > 0) | (high < 0)))
    return np.asarray(found & (p * family <= alpha))
