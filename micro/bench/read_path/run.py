"""How does a configuration of the micro-benchmark become a record, and which record stands in where no GPU is?

A run is the product of variants, swizzles and works; the declared family sets every variant against the last one under
the same swizzle and work. The trap: the newest record need not be one of the configured residency, and figures of one
block per SM answer another question than those of two, so the match comes before the date.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from micro.bench.read_path.config import MicroConfig
from micro.model.arm_names import Work, arm_name
from stats.record.reader import newest_first, read_record
from stats.record.schema import Record
from stats.run.progress import Progress
from stats.run.trials import run_trials


def works_of(do_mma: str) -> list[Work]:
    """DO_MMA=0 loads only; DO_MMA=1 loads and multiplies; both adds the mma alone, which makes overlap computable."""
    return {"0": [Work.LOAD], "1": [Work.LOAD_MMA], "both": [Work.LOAD, Work.LOAD_MMA, Work.MMA]}[do_mma]


def run_micro(
    config: MicroConfig, *, device_index: int, out: Path | None, resume: bool = False, progress: Progress | None = None
) -> Record:
    """Measure.

    Raises UserError and BenchError as ``stats.run.trials.run_trials`` and ``micro.bench.read_path.arms.micro_arms`` do.
    """
    from micro.bench.read_path.arms import micro_arms

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


def newest_record(folders: list[Path], blocks_per_sm: int) -> Record | None:
    """The newest recorded run in the first folder that holds one: of this many blocks per SM, else of any."""
    for folder in folders:
        newest: Record | None = None
        for path in newest_first(folder, "micro-bench"):
            record = read_record(path)
            if record.header.workload.get("blocks_per_sm") == blocks_per_sm:
                return record
            newest = newest or record
        if newest is not None:
            return newest
    return None
