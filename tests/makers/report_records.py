"""Records of known effects for tests of reports: a micro-benchmark and a GEMM as a device might have run them.

Seeded and free of dates and machine names, so that what is made from them is the same everywhere.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from micro.model.arm_names import MMA_ARM, parse_arm
from stats.record.provenance import todays_hash
from stats.record.schema import ArmInfo, CellRow, Device, Header, ProcessRow, Record, SkipRow
from stats.record.writer import RecordWriter
from tests.makers.rows import header

DEVICE = Device(name="Example GPU", uuid="GPU-0", compute_capability="9.0", sm_count=132, driver="580.1")
KERNEL = "tests/golden/kernel.cu"
FLAGS = ["-O3"]
LOAD = {"A1": 34.0, "A2": 24.1, "A2L": 24.05, "A3": 24.05}  # SM cycles per warp k-step
LOAD_NO_SWIZZLE = {"A1": 96.3, "A2": 96.2, "A2L": 96.2, "A3": 72.1}
BOTH = {"A1": 63.0, "A2": 49.0, "A2L": 41.6, "A3": 41.4}
BOTH_NO_SWIZZLE = {"A1": 118.0, "A2": 112.0, "A2L": 104.0, "A3": 80.4}
MMA = 32.1
PREDICTED = {"A1": 32, "A2": 24, "A2L": 24, "A3": 24}
PREDICTED_NO_SWIZZLE = {"A1": 96, "A2": 96, "A2L": 96, "A3": 72}
KSTEPS = 4_800


def micro_levels() -> dict[str, float]:
    """True cycles per warp k-step of every arm of the micro-benchmark."""
    levels = {f"{name}:load": cycles for name, cycles in LOAD.items()}
    levels |= {f"{name}:load+mma": cycles for name, cycles in BOTH.items()}
    levels |= {f"{name}/noswz:load": cycles for name, cycles in LOAD_NO_SWIZZLE.items()}
    levels |= {f"{name}/noswz:load+mma": cycles for name, cycles in BOTH_NO_SWIZZLE.items()}
    return levels | {MMA_ARM: MMA, "A3:load.twin": LOAD["A3"]}


def _micro_static(name: str) -> dict[str, Any]:
    key = parse_arm(name.removesuffix(".twin"))
    if key is None:
        return {"registers": 90, "spill_bytes": 0, "resident_blocks": 2}
    variant, swizzle, _ = key
    predicted = (PREDICTED if swizzle else PREDICTED_NO_SWIZZLE)[variant]
    facts = {"load_instructions": {"A1": 32, "A2": 24}.get(variant, 8), "wavefronts": predicted, "bytes": 3072}
    facts |= {"registers": 110, "spill_bytes": 0, "resident_blocks": 2}
    return facts | ({"predicted_cycles": predicted} if name.endswith(":load") else {})


def make_header(levels: Mapping[str, float], **changes: Any) -> Header:
    """A header over the arms of ``levels``; those that are nan were skipped."""
    facts: dict[str, Any] = {
        "arms": list(levels),
        "tool": "micro-bench",
        "run_id": "example",
        "device": DEVICE,
        "software": {"python": "3.11.2", "torch": "2.9.0", "cuda_runtime": "13.0", "nvcc": "13.0"},
        "git_commit": "0" * 40,
        "source_hash": todays_hash([KERNEL], FLAGS) or "gone",
        "sources": [KERNEL],
        "build_flags": FLAGS,
        "reference": [arm for arm in levels if not math.isnan(levels[arm])][-1].removesuffix(".twin"),
        "comparisons": [],
        "launches": 1,
        "workload": {"kernel": "micro", "dtype": "bf16", "blocks_per_sm": 2},
    }
    return header(**(facts | changes))


def make_record(
    levels: Mapping[str, float],
    *,
    per_level_ns: float = 1.0,
    launches: int = 1,
    processes: int = 8,
    blocks: int = 20,
    within: float = 0.002,
    between: float = 0.0004,
    clock_mhz: Mapping[str, float] | None = None,
    throttled: Mapping[tuple[int, int], str] | None = None,
    skips: Mapping[str, str] | None = None,
    values: bool = False,
    monitored: bool = True,
    seed: int = 0,
    **facts: Any,
) -> Record:
    """Cells whose cycles are ``levels`` times ``per_level_ns`` ns at 1,980 MHz, scattered."""
    rng = np.random.default_rng(seed)
    declared = dict(levels) | dict.fromkeys(skips or {}, math.nan)
    record = Record(header=make_header(declared, processes=processes, blocks=blocks, launches=launches, **facts))
    for arm, reason in (skips or {}).items():
        record.add(SkipRow(arm, reason))
    arms = list(levels)
    for process in range(processes):
        record.add(ProcessRow(process, "start"))
        own = rng.normal(0, between, len(arms))
        for block in range(blocks):
            reasons = (throttled[process, block],) if throttled and (process, block) in throttled else ()
            warm = 1 - math.exp(-(block + 2) / 6)
            for position, i in enumerate(rng.permutation(len(arms))):
                arm = arms[int(i)]
                level = levels[arm] * math.exp(own[i] + rng.normal(0, within))
                mhz = (clock_mhz or {}).get(arm, 1980.0) + float(rng.normal(0, 0.8))
                cycles = level * per_level_ns * 1.98 * launches
                record.add(
                    CellRow(
                        process=process,
                        block=block,
                        position=position,
                        arm=arm,
                        launches=launches,
                        time_ns=cycles / mhz * 1e3,
                        sm_cycles=cycles,
                        clock_mhz=mhz,
                        temperature_c=round(38 + 14 * warm + 0.4 * process) if monitored else math.nan,
                        power_w=300 + 250 * warm + float(rng.normal(0, 6)) if monitored else math.nan,
                        throttle_reasons=reasons,
                        started_s=round(0.5 + 0.02 * (block * len(arms) + position), 3),
                        values={"cycles_per_kstep": level} if values else {},
                    )
                )
        record.add(ProcessRow(process, "end"))
    return record


def micro_record(**changes: Any) -> Record:
    """A whole micro-bench run."""
    levels = micro_levels()
    comparisons = [
        (f"{name}{off}:{work}", f"A3{off}:{work}")
        for work in ("load", "load+mma")
        for off in ("", "/noswz")
        for name in ("A1", "A2", "A2L")
    ]
    facts = {"arms": [ArmInfo(name=arm, static=_micro_static(arm)) for arm in levels], "comparisons": comparisons}
    return make_record(levels, **{"per_level_ns": KSTEPS, "values": True, **facts, **changes})


def transposed(arm: str) -> dict[str, Any]:
    """What the GEMM says of a kernel that reads a B transposed beforehand."""
    return {"b_transposed": arm in ("A2", "A2L")}


def gemm_record(**changes: Any) -> Record:
    """A gemm-bench ladder in which A3 beats A2L by 0.4 % and A1 by 6 %, cuBLAS ahead of all."""
    levels = {"A1": 0.4790, "A2": 0.4610, "A2L": 0.4532, "A3": 0.4514, "cublas": 0.196, "A3.twin": 0.4514}
    arms = [
        ArmInfo(
            name=arm,
            static={}
            if arm == "cublas"
            else {"registers": 128, "spill_bytes": 0, "shared_bytes": 49152, "resident_blocks": 2, **transposed(arm)},
        )
        for arm in levels
    ]
    facts = {
        "tool": "gemm-bench",
        "arms": arms,
        "comparisons": [("A1", "A3"), ("A1", "A2"), ("A2", "A2L"), ("A2L", "A3")],
        "workload": {"kernel": "gemm", "m": 4096, "n": 4096, "k": 4096, "dtype": "bf16"},
        "clock_mhz": {"A1": 1755.0, "A2": 1750.0, "A2L": 1740.0, "A3": 1738.0, "A3.twin": 1738.0, "cublas": 1690.0},
    }
    return make_record(levels, **{"per_level_ns": 1e6, "launches": 10, "within": 0.0012, **facts, **changes})


def written(record: Record, path: Path) -> Path:
    """``record`` as a file."""
    with RecordWriter(path, record.header) as writer:
        for row in (*record.skips, *record.events, *record.cells):
            writer.append(row)
    return path


@functools.cache
def _bytes_of(make: Callable[[], Record]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return written(make(), Path(folder) / "record.jsonl").read_bytes()


def usual(make: Callable[[], Record], path: Path) -> Path:
    """The record that ``make`` (``micro_record``, ``gemm_record``) gives unasked, as a file; it is made once."""
    path.write_bytes(_bytes_of(make))
    return path
