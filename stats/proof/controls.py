"""Do the bands of the simulation bite? Analyses known to be wrong, in worlds where the right one holds its rate.

Cells pooled as if each were a run, arms measured one after the other, looking until it looks good, and an ordinary t
interval after a first stage chose n. ``stats.proof.simulate`` records their rates next to the others, as controls that
must leave their bands. The trap: with few repetitions a band is so wide that a wrong analysis fits in, so each control
draws ``LEAST`` at least.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stats.analysis import intervals
from stats.analysis.grid import Flags
from stats.analysis.intervals import Floats
from stats.analysis.stopping import units_in_all
from stats.proof.nulls import FAMILIES, Design, ar1

LEAST = 4000  # repetitions: the bands of .05 and .95 are then 1.2 % to either side
MOST_UNITS = 400  # of two stages: far above what 8 first units of deviation 1 ever ask for


def _t_rejects(x: Floats, confidence: float) -> Flags:
    low, high = intervals.t_interval(x, confidence)
    return np.asarray((low > 0) | (high < 0))


def pooled_cells(repetitions: int, seed: int = 1, alpha: float = 0.05) -> Flags:
    """False positives of t on all blocks of all processes, where each process prefers one arm by itself."""
    rng = np.random.default_rng([seed, 91])
    trials = FAMILIES["process effect"](rng, repetitions, Design())
    return _t_rejects((trials.a - trials.b).reshape(repetitions, -1), 1 - alpha)


def arms_in_sequence(repetitions: int, seed: int = 1, alpha: float = 0.05) -> Flags:
    """False positives of the two-sample t on AAAA BBBB, cells taken as independent, under AR(1) of .9."""
    from scipy import stats

    series = ar1(np.random.default_rng([seed, 92]), (repetitions, 1, 40), 0.9)[:, 0]
    return np.asarray(stats.ttest_ind(series[:, :20], series[:, 20:], axis=1).pvalue < alpha)


def peeking(repetitions: int, seed: int = 1, alpha: float = 0.05, first: int = 5, last: int = 50) -> Flags:
    """False positives of t looked at after every independent block from ``first`` to ``last``."""
    d = np.random.default_rng([seed, 93]).standard_normal((repetitions, last))
    found = np.zeros(repetitions, dtype=bool)
    for n in range(first, last + 1):
        found |= _t_rejects(d[:, :n], 1 - alpha)
    return found


def ordinary_after_stages(repetitions: int, seed: int = 1, first: int = 8, half_width: float = 0.6) -> Flags:
    """Coverage of t on both stages together, n - 1 degrees of freedom, after the first chose n by Stein's rule."""
    from scipy import stats

    x = np.random.default_rng([seed, 94]).standard_normal((repetitions, MOST_UNITS))
    n = np.minimum(units_in_all(x[:, :first].std(axis=1, ddof=1), first, half_width), MOST_UNITS)
    taken = np.arange(MOST_UNITS) < n[:, None]
    mean = x.sum(axis=1, where=taken) / n
    spread = np.sqrt(((x - mean[:, None]) ** 2).sum(axis=1, where=taken) / (n - 1))
    return np.asarray(np.abs(mean) <= stats.t.ppf(0.975, n - 1) * spread / np.sqrt(n))


def controls(repetitions: int, seed: int = 1) -> Iterator[tuple[str, str, Flags, float]]:
    """World, wrong analysis, hits and the rate that the right analysis would have, of every control."""
    asked = max(repetitions, LEAST)
    yield "process effect", "false positives, cells pooled", pooled_cells(asked, seed), 0.05
    yield "AR(1), arms in sequence", "false positives, cells independent", arms_in_sequence(asked, seed), 0.05
    yield "peeking after each of 5 to 50 blocks", "false positives of t", peeking(asked, seed), 0.05
    yield "Stein's two stages", "coverage of ordinary t", ordinary_after_stages(asked, seed), 0.95
