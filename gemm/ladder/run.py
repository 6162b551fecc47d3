"""How does a configuration of the GEMM and one shape become a record?

The config says which kernels and which comparisons, the shape how many launches make a cell; the factory that a fresh
process gets holds only what can be pickled. The trap: a record holds one shape, since an effect of one says nothing of
another, so several shapes are several runs and several files.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from gemm.kernel.arguments import parse_shape
from gemm.ladder.config import GemmConfig
from stats.base.errors import UserError
from stats.record.schema import Record
from stats.run.progress import Progress
from stats.run.spec import TrialSpec
from stats.run.trials import run_trials

TOOL = "gemm-bench"


def spec_of(config: GemmConfig, shape: tuple[int, int, int]) -> TrialSpec:
    """The design of the run on one shape: twin, declared family, launches per cell."""
    reference = config.reference_arm
    spec = config.trial_spec(TOOL, reference, f"{reference}.twin", preload=["torch"])
    return replace(spec, comparisons=config.family, launches=config.launches_for(shape))


def run_gemm(
    config: GemmConfig,
    shape: tuple[int, int, int],
    *,
    device_index: int,
    out: Path | None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Record:
    """Gate and measure one shape (m, n, k). Raises what ``run_trials`` and ``gemm.ladder.arms.gemm_arms`` raise."""
    from gemm.ladder.arms import gemm_arms

    factory = functools.partial(
        gemm_arms,
        kernels=config.kernels,
        shape=shape,
        reference=config.reference_arm,
        with_cublas=config.cublas,
        equal_residency=config.equal_residency,
        launches=config.launches_for(shape),
        l2_mode=config.l2_mode,
        device_index=device_index,
        seed=config.seed,
    )
    return run_trials(spec_of(config, shape), factory, out=out, resume=resume, progress=progress)


def record_path(out: Path | None, shape: str, shapes: list[str]) -> Path | None:
    """A record holds one shape: with several, ``shapes.jsonl`` becomes ``shapes-512x512x512.jsonl`` and so on."""
    if out is None or len(shapes) == 1:
        return out
    m, n, k = parse_shape(shape)
    if not out.suffix:
        raise UserError(f"--out {out}: name a file such as {out}.jsonl; one is written per shape")
    return out.with_name(f"{out.stem}-{m}x{n}x{k}{out.suffix}")
