"""Worlds without an effect: how two equal arms may look when the machine, not the arm, moves the figures.

Each family draws log figures of arms a and b for (repetitions, processes, blocks) from a process of trials in time: a
block is two trials in a random order, balanced over each pair of blocks as the runner's is, so drift, autocorrelation
and position act as they do in a run. The trap: families that act on each cell by itself would let an analysis that
ignores order and process pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from stats.analysis.grid import Flags
from stats.analysis.intervals import Floats

NOISE = 0.01  # standard deviation of the log of a cell
THROTTLED = 0.2  # log of how much slower a throttled cell is


@dataclass(frozen=True)
class Design:
    """Processes and blocks of every simulated run."""

    processes: int = 8
    blocks: int = 20


@dataclass(frozen=True)
class Trials:
    """Log figures of two arms and which blocks the blind rule accepts, each (repetitions, processes, blocks)."""

    a: Floats
    b: Floats
    accepted: Flags | None = None


Rng: TypeAlias = np.random.Generator
Family: TypeAlias = Callable[[Rng, int, Design], Trials]


def process_means(trials: Trials) -> Floats:
    """Mean log(a / b) of each process over its accepted blocks, (repetitions, processes)."""
    d = trials.a - trials.b
    if trials.accepted is None:
        return np.asarray(d.mean(axis=2))
    return np.asarray((d * trials.accepted).sum(axis=2) / trials.accepted.sum(axis=2))


def _a_first(rng: Rng, shape: tuple[int, int, int]) -> Flags:
    coin = rng.random((shape[0], shape[1], shape[2] // 2)) < 0.5
    return np.stack([coin, ~coin], axis=3).reshape(shape)


def in_order(rng: Rng, trials: Floats) -> Trials:
    """Deal a series of trials (repetitions, processes, 2 blocks) to two arms in balanced random order."""
    repetitions, processes, length = trials.shape
    pairs = trials.reshape(repetitions, processes, length // 2, 2)
    first = _a_first(rng, (repetitions, processes, length // 2))
    return Trials(np.where(first, pairs[..., 0], pairs[..., 1]), np.where(first, pairs[..., 1], pairs[..., 0]))


def ar1(rng: Rng, shape: tuple[int, int, int], rho: float) -> Floats:
    """A stationary first-order autoregression along the last axis, of standard deviation 1."""
    x = rng.standard_normal(shape)
    for i in range(1, shape[2]):
        x[..., i] = rho * x[..., i - 1] + np.sqrt(1 - rho**2) * x[..., i]
    return x


def _shape(repetitions: int, design: Design) -> tuple[int, int, int]:
    return repetitions, design.processes, 2 * design.blocks


def _normal(rng: Rng, repetitions: int, design: Design) -> Trials:
    return in_order(rng, NOISE * rng.standard_normal(_shape(repetitions, design)))


def _laplace(rng: Rng, repetitions: int, design: Design) -> Trials:
    return in_order(rng, rng.laplace(0, NOISE, _shape(repetitions, design)))


def _symmetric_outliers(rng: Rng, repetitions: int, design: Design) -> Trials:
    """One cell in twenty scatters five times as far."""
    x = NOISE * rng.standard_normal(_shape(repetitions, design))
    return in_order(rng, np.where(rng.random(x.shape) < 0.05, 5 * x, x))


def _bimodal_clocks(rng: Rng, repetitions: int, design: Design) -> Trials:
    """Two clocks 15 % apart; after each trial the clock changes with chance one in five."""
    shape = _shape(repetitions, design)
    state = (np.cumsum(rng.random(shape) < 0.2, axis=2) + rng.integers(0, 2, (*shape[:2], 1))) % 2
    return in_order(rng, 0.15 * state + NOISE * rng.standard_normal(shape))


def _autocorrelated(rng: Rng, repetitions: int, design: Design) -> Trials:
    return in_order(rng, NOISE * ar1(rng, _shape(repetitions, design), 0.9))


def _drift(rng: Rng, repetitions: int, design: Design) -> Trials:
    """Figures rise by ten times the noise over a process."""
    shape = _shape(repetitions, design)
    return in_order(rng, np.linspace(0, 10 * NOISE, shape[2]) + NOISE * rng.standard_normal(shape))


def _position_effect(rng: Rng, repetitions: int, design: Design) -> Trials:
    """The second place of a block is slower by twice the noise."""
    shape = _shape(repetitions, design)
    return in_order(rng, 2 * NOISE * (np.arange(shape[2]) % 2) + NOISE * rng.standard_normal(shape))


def _process_effect(rng: Rng, repetitions: int, design: Design) -> Trials:
    """A level for each process, and a preference of each process for one arm as large as the noise (ICC .5)."""
    trials = _normal(rng, repetitions, design)
    level = 5 * NOISE * rng.standard_normal((repetitions, design.processes, 1))
    preference = np.sqrt(2) * NOISE * rng.standard_normal((repetitions, design.processes, 1))
    return Trials(trials.a + level + preference, trials.b + level)


def _asymmetric_throttling(rng: Rng, repetitions: int, design: Design) -> Trials:
    """Arm a throttles in 12 % of its cells, b in 2 %; the blind rule drops the whole block."""
    trials = _normal(rng, repetitions, design)
    hot_a, hot_b = rng.random(trials.a.shape) < 0.12, rng.random(trials.b.shape) < 0.02
    return Trials(trials.a + THROTTLED * hot_a, trials.b + THROTTLED * hot_b, ~(hot_a | hot_b))


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "normal": _normal,
        "laplace": _laplace,
        "symmetric outliers": _symmetric_outliers,
        "bimodal clocks": _bimodal_clocks,
        "AR(1)": _autocorrelated,
        "drift": _drift,
        "position effect": _position_effect,
        "process effect": _process_effect,
        "asymmetric throttling": _asymmetric_throttling,
    }
)
