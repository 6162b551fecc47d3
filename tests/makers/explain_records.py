"""Records of a GPU that never was, for tests of what ``gemm-bench explain`` makes of records."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from gemm.explain.evidence import Evidence, warp_ksteps_per_sm
from stats.record.schema import ArmInfo, Device, Record
from tests.makers.rows import filled, header

GPU = Device(name="Test GPU", uuid="GPU-0", compute_capability="9.0", sm_count=132)
SHAPE = {"m": 4096, "n": 4096, "k": 4096}
KSTEPS = warp_ksteps_per_sm(4096, 4096, 4096, GPU.sm_count)

SMALL = (128 * 264, 128, 512)  # two blocks on each of 132 SMs, quickly simulated


def record(
    tool: str,
    values: Mapping[str, Mapping[str, float]],
    *,
    cycles: Mapping[str, float] | None = None,
    workload: Mapping[str, Any] | None = None,
    static: Mapping[str, Mapping[str, Any]] | None = None,
    comparisons: list[tuple[str, str]] | None = None,
    device: Device = GPU,
) -> Record:
    """Arms with the given ``values``, each process about 0.01 % away from them, so that intervals have a width."""
    arms = [ArmInfo(name=name, static=dict((static or {}).get(name, {}))) for name in values]
    first = header(
        arms, tool=tool, device=device, reference=next(iter(values)), comparisons=comparisons or [], processes=8,
        workload=dict(workload or {}), source_hash="cafe",
    )  # fmt: skip
    rng = random.Random(5)

    def facts(name: str, process: int, block: int) -> dict[str, Any]:
        scale = 1 + rng.uniform(-1e-4, 1e-4)
        total = (cycles or {}).get(name, 2e5) * scale
        figures = {key: value * scale for key, value in values[name].items()}
        return {"time_ns": total / 1.755, "sm_cycles": total, "clock_mhz": 1755.0, "values": figures}

    return filled(first, list(values), facts)


def micro(blocks: int = 2, **cycles: float) -> Record:
    """A micro record; ``A1_load`` is arm ``A1:load``, ``A1_both`` ``A1:load+mma``, ``A1_off`` has no swizzle."""
    names = {"load": ":load", "both": ":load+mma", "off": "/noswz:load"}
    values = {}
    for key, value in cycles.items():
        variant, _, work = key.partition("_")
        values[variant + names[work] if work else key] = {"cycles_per_kstep": value}
    return record("micro-bench", values, workload={"blocks_per_sm": blocks})


def gemm(resident: Mapping[str, int] | None = None, **cycles_per_kstep: float) -> Record:
    """A GEMM record of 4096³; ``A3__stages_2`` is arm ``A3/stages=2``, ``A3__staged`` is ``A3/staged``."""
    names = {key: key.replace("__stages_", "/stages=").replace("__", "/") for key in cycles_per_kstep}
    cycles = {names[key]: value * KSTEPS for key, value in cycles_per_kstep.items()}
    static = {name: {"resident_blocks": (resident or {}).get(name, 2)} for name in cycles}
    arms = list(cycles)
    family = [(a, b) for a in arms for b in arms if a != b]
    return record(
        "gemm-bench", {name: {} for name in cycles}, cycles=cycles, workload=SHAPE, static=static, comparisons=family
    )


def stream(
    natural: float = 30.0, transposed: float = 30.0, reads: Mapping[str, float] | None = None, **opt_in: bool
) -> Record:
    """A stream record with rates in bytes per clock and SM; ``reads``: variant -> cycles per warp k-step."""
    values = {
        "tiles_natural": {"bytes_per_clk_per_sm": natural, "cycles_per_kstep": 1024 / natural},
        "tiles_transposed": {"bytes_per_clk_per_sm": transposed, "cycles_per_kstep": 1024 / transposed},
        "cp_async_latency": {"cp_async_latency_cycles": 300.0},
        "barrier": {"barrier_cycles": 25.0},
        **{f"reads_{variant}": {"cycles_per_kstep": cycles} for variant, cycles in (reads or {}).items()},
    }
    return record("gemm-bench explain stream", values, static={"tiles_natural": opt_in})


def evidence(*, micro_record: Record | None = None, gemms: tuple[Record, ...] = (), **more: Any) -> Evidence:
    """Evidence of these records, the micro record at two blocks per SM."""
    return Evidence(micro={2: micro_record} if micro_record else {}, gemm=list(gemms), **more)
