"""Ask each tool the same question: how much longer is side a of this pair than side b?

Each tool is used as its documentation says. triton's do_bench with its defaults, one side, then the other; nvbench
(PyPI cuda-bench) with a string axis of sides, on its own stream, told to take as many samples as do_bench took launches
(--stopping-criterion sample-count), its batch measure as long; ours as paired blocks of cells, as many launches. The
traps: nvbench runs all it has registered once in a process, so it comes last; and both others may be absent or refuse,
which is a line of the result and not the end of the run.
"""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gemm.truth.tools.design import DO_BENCH, NVBENCH, NVBENCH_DEFAULTS, OURS, Measured, Pair
from stats.base.errors import BenchError
from stats.record.schema import Cell
from stats.run.order import block_orders

Launch = Callable[[], object]
Sides = Callable[[Pair, str], Launch]  # a side of a pair, for the stream that is current
_WARMUP_BLOCKS = 2
_NVBENCH_TIMEOUT_S = 5.0  # of wall time a side: its default of 15 s would let one throttled side eat the run
_COLD, _BATCH = "nv/cold/time/gpu", "nv/batch/time/gpu/mean"


class ToolMissing(Exception):  # noqa: N818 - a state of the machine, told in a row
    """The tool is not installed, or does not load; the message says which."""


def _need(module: str, package: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ToolMissing(f"not installed (pip install {package})")


def do_bench(pair: Pair, sides: Sides) -> list[Measured]:
    """triton.testing.do_bench, defaults (25 ms of warm-up, 100 ms of launches), both summaries of the same launches.

    Raises ToolMissing.
    """
    _need("triton", "triton")
    from triton.testing import do_bench as bench

    times: dict[str, list[float]] = {}
    started_s = time.perf_counter()
    for side in pair.sides:
        times[side] = bench(sides(pair, side), return_mode="all")
    wall_s = time.perf_counter() - started_s
    launches = len(times["b"])
    return [
        Measured(DO_BENCH, name, pair.index, summary(times["a"]), summary(times["b"]), launches, wall_s)
        for name, summary in (("mean", statistics.mean), ("median", statistics.median))
    ]


def paired_blocks(
    pair: Pair, sides: Sides, measure: Callable[[Launch, int], Cell], *, launches: int, per_cell: int, seed: int
) -> list[Measured]:
    """Blocks in balanced random order, both sides in each, ``launches`` timed launches a side in cells of ``per_cell``.

    a / b is exp of the mean of log(a / b) over blocks, as in every record of this suite.
    """
    blocks = 2 * max(1, round(launches / per_cell / 2))
    launch = {side: sides(pair, side) for side in ("a", "b")}

    def cell(side: str) -> Cell:
        launch[side]()  # leaves this side's operands in L2, as in every other run of ours
        return measure(launch[side], per_cell)

    started_s = time.perf_counter()
    for order in block_orders(["a", "b"], _WARMUP_BLOCKS, seed=seed, process=pair.index, warmup=True):
        for side in order:
            cell(side)
    cells = [
        {side: cell(side) for side in order}
        for order in block_orders(["a", "b"], blocks, seed=seed, process=pair.index)
    ]
    wall_s = time.perf_counter() - started_s
    found = []
    for name, field in (("SM cycles", "sm_cycles"), ("time", "time_ns")):
        logs = {side: np.log([getattr(block[side], field) / per_cell for block in cells]) for side in ("a", "b")}
        a, b = (math.exp(float(logs[side].mean())) for side in ("a", "b"))
        ratios = [round(float(one), 9) for one in logs["a"] - logs["b"]]
        found.append(Measured(OURS, name, pair.index, a, b, blocks * per_cell, wall_s, ratios))
    return found


def _stream(torch: Any, stream: Any) -> Any:
    return torch.cuda.ExternalStream(stream.addressof())


def nvbench(
    pairs: Sequence[Pair], sides: Sides, *, launches: int, launch_s: float, defaults: int, device: int, out: Path
) -> list[Measured]:
    """Every pair through one ``run_all_benchmarks``: ``launches`` cold samples a side, then a batch of as much time.

    The first ``defaults`` A/A pairs once more with nvbench's own stopping rule, cold only. ``launch_s`` is the time of
    one launch; ``out`` is the file of its JSON. Raises ToolMissing and what nvbench raises.
    """
    _need("cuda.bench", "'cuda-bench[cu13]'")
    try:
        import cuda.bench as bench

        run_all = bench.run_all_benchmarks  # the extension is loaded here
    except ImportError as error:
        raise ToolMissing(f"does not load: {' '.join(str(error).split())}") from None
    import torch

    by_name = {f"{pair.index}{side}": (pair, side) for pair in pairs for side in ("a", "b")}

    def run(state: Any, **options: Any) -> None:
        own = state.get_stream()
        with torch.cuda.stream(_stream(torch, own)):
            launch = sides(*by_name[state.get_string("Side")])

            def launcher(launched: Any) -> None:
                if launched.get_stream().addressof() != own.addressof():
                    raise BenchError("nvbench: measures another stream than the one that its state names")
                launch()

            state.exec(launcher, **options)
        torch.cuda.synchronize()

    def equal_time(state: Any) -> None:
        run(state)

    def default_time(state: Any) -> None:
        run(state, batched=False)

    equal = bench.register(equal_time)
    equal.add_string_axis("Side", _names(pairs))
    equal.set_stopping_criterion("sample-count").set_criterion_param_int64("target-samples", launches)
    equal.set_batch_target_time(launches * launch_s).set_timeout(_NVBENCH_TIMEOUT_S)
    again = [pair for pair in pairs if pair.effect_percent == 0][:defaults]
    if again:
        bench.register(default_time).add_string_axis("Side", _names(again)).set_timeout(_NVBENCH_TIMEOUT_S)
    run_all(["gemm-bench", "--devices", str(device), "--quiet", "--json", str(out)])
    document = json.loads(out.read_text(encoding="utf-8"))
    found = nvbench_measured(pairs, read_states(document, "equal_time"), NVBENCH)
    return found + (nvbench_measured(again, read_states(document, "default_time"), NVBENCH_DEFAULTS) if again else [])


def _names(pairs: Sequence[Pair]) -> list[str]:
    return [f"{pair.index}{side}" for pair in pairs for side in pair.sides]


def read_states(document: Mapping[str, Any], benchmark: str) -> dict[str, dict[str, float]]:
    """From nvbench's JSON (format 1): the summaries, tag to value, of each state of ``benchmark`` by its Side.

    Raises BenchError for a skipped state and for a document without that benchmark.
    """
    found: dict[str, dict[str, float]] = {}
    benchmarks = [one for one in document.get("benchmarks", []) if one["name"] == benchmark]
    if not benchmarks:
        raise BenchError(f"nvbench: its JSON has no benchmark {benchmark}")
    for state in benchmarks[0]["states"]:
        if state.get("is_skipped"):
            raise BenchError(f"nvbench: skipped {state.get('name')}: {state.get('skip_reason')}")
        side = next(
            str(axis.get("value", axis.get("input_string"))) for axis in state["axis_values"] if axis["name"] == "Side"
        )
        found[side] = {
            summary["tag"]: float(entry["value"])
            for summary in state["summaries"] or []
            for entry in summary["data"]
            if entry["name"] == "value" and entry["type"] in ("float64", "int64") and entry["value"] is not None
        }
    return found


def nvbench_measured(pairs: Sequence[Pair], states: Mapping[str, Mapping[str, float]], tool: str) -> list[Measured]:
    """nvbench's summaries of every pair as estimates; a summary that this version does not write gives none."""
    found = []
    for pair in pairs:
        a, b = (states[f"{pair.index}{side}"] for side in ("a", "b"))
        cold = (int(b.get("nv/cold/sample_size", 0)), sum(side.get("nv/cold/walltime", 0.0) for side in (a, b)))
        batch = (int(b.get("nv/batch/sample_size", 0)), sum(side.get("nv/batch/walltime", 0.0) for side in (a, b)))
        for measure, tag, cost in (
            ("cold mean", f"{_COLD}/mean", cold),
            ("cold median", f"{_COLD}/median", cold),
            ("batch mean", _BATCH, batch),
        ):
            if tag in a and tag in b:
                found.append(Measured(tool, measure, pair.index, a[tag], b[tag], *cost))
        clock, mean = "nv/cold/sm_clock_rate/mean", f"{_COLD}/mean"
        if all(tag in side for side in (a, b) for tag in (clock, mean)):
            cycles = (a[mean] * a[clock], b[mean] * b[clock])
            found.append(Measured(tool, "cold mean × SM clock", pair.index, *cycles, *cold))
    return found
