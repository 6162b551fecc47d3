"""One run of the micro-benchmark: configuration in, record out; or, where there is no GPU, the prediction."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from micro.arm_names import Work, arm_name
from micro.config import MicroConfig
from stats.progress import Progress
from stats.records import Record, newest_first, read_record
from stats.trials import run_trials

__all__ = ["newest_record", "run_micro", "works_of"]


def works_of(do_mma: str) -> list[Work]:
    """DO_MMA=0 loads only; DO_MMA=1 loads and multiplies; both adds the mma alone, which makes overlap computable."""
    return {"0": [Work.LOAD], "1": [Work.LOAD_MMA], "both": [Work.LOAD, Work.LOAD_MMA, Work.MMA]}[do_mma]


def run_micro(
    config: MicroConfig, *, device_index: int, out: Path | None, resume: bool = False, progress: Progress | None = None
) -> Record:
    """Measure; raises UserError and BenchError as ``stats.trials.run_trials`` and ``micro.arms.micro_arms`` do."""
    from micro.arms import micro_arms

    works = works_of(config.do_mma)
    reference = arm_name(config.variants[-1], config.swizzles[0], works[0])
    comparisons = [
        (arm_name(name, swizzle, work), arm_name(config.variants[-1], swizzle, work))
        for work in works
        if work is not Work.MMA
        for swizzle in config.swizzles
        for name in config.variants[:-1]
    ]
    factory = functools.partial(
        micro_arms,
        variants=list(config.variants),
        swizzles=config.swizzles,
        works=works,
        blocks_per_sm=config.blocks_per_sm,
        loops=config.loops,
        launches=config.launches,
        device_index=device_index,
        reference=reference,
        seed=config.seed,
    )
    spec = replace(
        config.trial_spec("micro-bench", reference, f"{reference}.twin", preload=["torch"]),
        comparisons=config.comparisons or comparisons,
        launches=config.launches,
    )
    return run_trials(spec, factory, out=out, resume=resume, progress=progress)


def newest_record(folders: list[Path]) -> Record | None:
    """The newest recorded run of the micro-benchmark in the first folder that holds one."""
    for folder in folders:
        for path in newest_first(folder, "micro-bench"):
            return read_record(path)
    return None
