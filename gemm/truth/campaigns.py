"""Does the whole chain, from kernel to verdict, say what is true? Campaigns in which the truth is known.

Many pairs of arms of the same kernel run in one record, each arm from a separately loaded copy of the library. In `aa`
that is all; in `inject` every cell ends in a spin, and the first arm's is longer by a known number of SM cycles. The
trap: the promise is made per pair, so each pair is judged alone and not as one family, and pairs share nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gemm.kernel.variants import Kernel
from stats.base.errors import UserError
from stats.record.schema import Cell, Record
from stats.run.progress import Progress
from stats.run.spec import TrialSpec
from stats.run.trials import run_trials
from stats.run.worker import ArmSet

CAMPAIGN_TOOL = "gemm-bench campaign"
_BASE_SPIN_CYCLES = 2_000  # in every cell of an injecting campaign, so that only its length differs
_CALIBRATION_CELLS = 9


@dataclass(frozen=True)
class Campaign:
    """One record's worth: a pair of arms for each entry of ``effects_percent`` (0: the same code)."""

    effects_percent: tuple[float, ...]
    kernel: Kernel = field(default_factory=lambda: Kernel("A3"))
    shape: tuple[int, int, int] = (2048, 2048, 2048)
    launches: int = 4
    processes: int = 8
    blocks: int = 10
    seed: int = 1
    margin_percent: float = 0.5

    @property
    def injects(self) -> bool:
        """Whether any pair differs."""
        return any(self.effects_percent)


def pair_names(effects_percent: Sequence[float]) -> list[tuple[str, str]]:
    """Arm names of every pair, the longer one first: ``("007+0.5%", "007")``."""
    return [(f"{i:03d}{effect:+g}%", f"{i:03d}") for i, effect in enumerate(effects_percent)]


@dataclass(frozen=True)
class _Arm:
    """One arm of a pair: some launches, then, in an injecting campaign, a spin."""

    measure: Callable[[Callable[[], object]], Cell]
    launch: Callable[[], object]
    launches: int
    spin: Callable[[int], None]
    spin_cycles: int  # 0: none
    injected_cycles: int

    def __call__(self) -> Cell:
        for _ in range(self.launches):
            self.launch()  # warm-up: the same state of L2, whatever ran before
        return replace(self.measure(self._work), values={"injected_cycles": float(self.injected_cycles)})

    def _work(self) -> None:
        for _ in range(self.launches):
            self.launch()
        if self.spin_cycles:
            self.spin(self.spin_cycles + self.injected_cycles)


def campaign_arms(campaign: Campaign, device_index: int) -> ArmSet:
    """The arms of one process, gated; effects are scaled to the cell as this process measures it."""
    import numpy as np

    from gemm.kernel.library import GemmLibrary, build_gemm, header_facts
    from gemm.kernel.operands import make_operands
    from gemm.ladder.check import gate
    from micro.gpu.build import load_copy
    from micro.gpu.cells import CellTimer

    timer = CellTimer(device_index)
    kernel = campaign.kernel
    built = build_gemm([kernel], [timer.device.arch])
    operands = make_operands(*campaign.shape, kernel.dtype, campaign.seed)
    gate(GemmLibrary(built), [kernel], operands)
    base_spin = _BASE_SPIN_CYCLES if campaign.injects else 0

    def arm(name: str, injected: int) -> _Arm:
        copy = GemmLibrary(load_copy(built, name))
        return _Arm(
            functools.partial(timer.measure, launches=1),
            copy.launcher(kernel, operands.a, operands.b_for(kernel.b_layout), operands.c),
            campaign.launches,
            timer.spin,
            base_spin,
            injected,
        )

    calibration = arm("calibration", 0)
    cell_cycles = float(np.median([calibration().sm_cycles for _ in range(_CALIBRATION_CELLS)]))
    arms: dict[str, Callable[[], Cell]] = {}
    for i, ((longer, base), effect) in enumerate(
        zip(pair_names(campaign.effects_percent), campaign.effects_percent, strict=True)
    ):
        arms[base] = arm(f"{i}b", 0)
        arms[longer] = arm(f"{i}a", round(effect / 100 * cell_cycles))
    m, n, k = campaign.shape
    return ArmSet(
        arms=arms,
        device=timer.device,
        **header_facts(built),
        workload={"kernel": f"gemm {kernel.name}", "m": m, "n": n, "k": k, "dtype": kernel.dtype},
    )


def run_campaign(
    campaign: Campaign, *, device_index: int, out: Path | None, clocks: str, progress: Progress | None = None
) -> Record:
    """Run one campaign. Raises UserError for no pairs, and what ``run_trials`` raises."""
    if not campaign.effects_percent:
        raise UserError("--pairs: a campaign needs at least one pair")
    pairs = pair_names(campaign.effects_percent)
    config: dict[str, Any] = {
        "campaign": "inject" if campaign.injects else "aa",
        "kernel": campaign.kernel.name,
        "effects_percent": list(campaign.effects_percent),
        "launches_per_cell": campaign.launches,
    }
    spec = TrialSpec(
        preload=["torch"],
        tool=CAMPAIGN_TOOL,
        reference=pairs[0][1],
        comparisons=pairs,
        margin_percent=campaign.margin_percent,
        processes=campaign.processes,
        blocks=campaign.blocks,
        seed=campaign.seed,
        clocks=clocks,  # type: ignore[arg-type]  # checked by the command line
        config=config,
    )
    factory = functools.partial(campaign_arms, campaign, device_index)
    return run_trials(spec, factory, out=out, progress=progress)
