"""One fresh process of the comparison of tools: ``python -m gemm.truth.tools.worker JOB.json RESULT.json``.

Builds and gates the kernel, opens a second copy of it, finds out what a launch costs with L2 hot and flushed, then lets
the tools take turns at every pair; nvbench, which runs once in a process, follows. The trap: that library has its own
main loop, and if it brings the process down, what was measured before must not be lost with it; so the result is
written before nvbench and again after.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gemm.truth.tools.design import DO_BENCH, NVBENCH, Design, Measured, Pair, design_from, draw_pairs, with_truth
from gemm.truth.tools.timers import ToolMissing, do_bench, nvbench, paired_blocks
from stats.base.errors import BenchError

NVBENCH_DIED = "did not finish: it ended the process that ran it"
_BASE_SPIN_CYCLES = 2_000  # of every launch, as in gemm-bench inject: the two sides differ in its length only
_CALIBRATION_CELLS = 9
_COLD_LAUNCHES = 20
_DO_BENCH_REP_MS = 100.0  # its default: the timed launches of a side fill this, flush included


class Bench:
    """The two copies of the kernel, the spin and the timer on the GPU."""

    def __init__(self, design: Design, device: int) -> None:
        import torch

        from gemm.kernel.library import GemmLibrary, build_gemm
        from gemm.kernel.operands import make_operands
        from gemm.kernel.variants import Kernel
        from gemm.ladder.check import gate
        from micro.gpu.build import load_copy
        from micro.gpu.cells import CellTimer

        self.timer, self._flushed = CellTimer(device), CellTimer(device, l2_mode="flushed")
        self._kernel = Kernel(design.kernel)
        self.built = build_gemm([self._kernel], [self.timer.device.arch])
        self._operands = make_operands(*design.shape, self._kernel.dtype, design.seed)
        self._copies = {"b": GemmLibrary(self.built), "a": GemmLibrary(load_copy(self.built, "twin"))}
        for copy in self._copies.values():
            gate(copy, [self._kernel], self._operands)
        self._per_cell = design.launches_per_cell
        self.calibrations: list[dict[str, float]] = []
        self.torch = torch

    def side(self, pair: Pair, side: str) -> Callable[[], object]:
        """Enqueue one launch of a side, its spin included, on the stream that is current now (and then)."""
        operands, layout = self._operands, self._kernel.b_layout
        launch = self._copies[side].launcher(self._kernel, operands.a, operands.b_for(layout), operands.c)
        spin_cycles = _BASE_SPIN_CYCLES + (pair.injected_cycles if side == "a" else 0)

        def run() -> None:
            launch()
            self.timer.spin(spin_cycles)

        return run

    def calibrate(self) -> None:
        """Add what a launch of side b takes now: SM cycles with L2 hot and flushed, seconds and clock."""
        launch = self.side(Pair(0, 0.0, 0, True), "b")
        launch()
        hot = [self.timer.measure(launch, self._per_cell) for _ in range(_CALIBRATION_CELLS)]
        flushed = self._flushed.measure(launch, _COLD_LAUNCHES)
        self.calibrations.append(
            {
                "hot": float(np.median([cell.sm_cycles for cell in hot])) / self._per_cell,
                "flushed": flushed.sm_cycles / _COLD_LAUNCHES,
                "hot_s": float(np.median([cell.time_ns for cell in hot])) / self._per_cell * 1e-9,
                "flushed_s": flushed.time_ns / _COLD_LAUNCHES * 1e-9,
                "clock_mhz": float(np.median([cell.clock_mhz for cell in hot])),
            }
        )

    def base_cycles(self) -> dict[str, float]:
        """SM cycles of a launch by state of L2: median of the calibrations so far."""
        return {l2: float(np.median([one[l2] for one in self.calibrations])) for l2 in ("hot", "flushed")}

    def facts(self) -> dict[str, Any]:
        """What the record's top level says of device, software and sources."""
        from gemm.kernel.library import hashed_sources, source_hash
        from stats.record.provenance import software_versions

        packages = ("numpy", "torch", "triton", "cuda-bench", "cuda-bindings")
        return {
            "device": self.timer.device.model_dump(),
            "software": {
                **software_versions(packages),
                "cuda_runtime": str(self.torch.version.cuda),
                "nvcc": self.built.nvcc,
            },
            "source_hash": source_hash(),
            "sources": hashed_sources(),
            "build_flags": list(self.built.flags),
            "calibrations": self.calibrations,
        }


def take_turns(
    pairs: Sequence[Pair], tools: Mapping[str, Callable[[Pair], list[Measured]]], seed: int
) -> tuple[list[Measured], dict[str, str]]:
    """Every tool at every pair, in random order within the pair; and why a tool was dropped, if one was.

    Ours must run: its errors are raised. Another tool that is missing or fails loses its turn from then on.
    """
    rng = np.random.default_rng([seed, 77])
    found: list[Measured] = []
    missing: dict[str, str] = {}
    for pair in pairs:
        for name in (list(tools)[which] for which in rng.permutation(len(tools))):
            if name in missing:
                continue
            try:
                found += tools[name](pair)
            except ToolMissing as why:
                missing[name] = str(why)
            except BenchError:
                raise
            except Exception as error:
                if name not in (DO_BENCH, NVBENCH):
                    raise
                missing[name] = failed(error)
    return found, missing


def failed(error: Exception) -> str:
    """One line on a tool that raised."""
    return f"failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def work(design: Design, process: int, device: int, out: Path) -> None:
    """Measure one process's pairs and write the result to ``out``. Raises UserError and BenchError."""
    bench = Bench(design, device)
    for _ in range(3):  # the first ones heat the device
        bench.calibrate()
    pairs = draw_pairs(design, process, bench.base_cycles()["hot"])
    launches = _launches(pairs[0], bench)

    def ours(pair: Pair) -> list[Measured]:
        return paired_blocks(
            pair,
            bench.side,
            bench.timer.measure,
            launches=launches,
            per_cell=design.launches_per_cell,
            seed=design.seed + process,
        )

    found, missing = take_turns(
        pairs, {"ours": ours, DO_BENCH: lambda pair: do_bench(pair, bench.side)}, design.seed + process
    )
    bench.calibrate()

    def write(nvbench_missing: dict[str, str]) -> None:
        comparisons = with_truth(process, pairs, found, bench.base_cycles())
        result = {
            **bench.facts(),
            "comparisons": [asdict(one) for one in comparisons],
            "missing": missing | nvbench_missing,
        }
        out.write_text(json.dumps(result), encoding="utf-8")

    write({NVBENCH: NVBENCH_DIED})
    nvbench_missing = {}
    try:
        found += nvbench(
            pairs,
            bench.side,
            launches=launches,
            launch_s=bench.calibrations[-1]["hot_s"],
            defaults=design.defaults,
            device=device,
            out=out.with_suffix(".nvbench.json"),
        )
    except ToolMissing as why:
        nvbench_missing = {NVBENCH: str(why)}
    except Exception as error:  # whatever a foreign main loop raises, the others' figures stand
        nvbench_missing = {NVBENCH: failed(error)}
    else:
        bench.calibrate()
    write(nvbench_missing)


def _launches(pair: Pair, bench: Bench) -> int:
    """Timed launches a side for every tool: as many as do_bench takes here by default, or would."""
    try:
        return do_bench(pair, bench.side)[0].launches
    except Exception:  # its turn will say why it does not run
        return max(1, int(_DO_BENCH_REP_MS * 1e-3 / bench.calibrations[-1]["flushed_s"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job: design, process and device from JOB.json, the result to RESULT.json."""
    job_path, out = sys.argv[1:] if arguments is None else arguments
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    try:
        work(design_from(job["design"]), job["process"], job["device"], Path(out))
    except BenchError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.exit(status)
