"""Spans: last end minus first start per SM, and each of the three checks refusing what cannot be true."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from micro.bench.read_path.library import KernelResources
from micro.gpu.build import CUDA_DIR
from micro.gpu.device import mma_floor_cycles_per_kstep
from micro.gpu.spans import SPAN, check_limits, check_residency, sm_spans
from stats.base.errors import BenchError

KSTEPS = 100
BYTES = 3072


def spans(cycles_per_kstep: float, *, sms: int = 4, warps: int = 16, stagger: int = 0) -> np.ndarray:
    """Warps of ``sms`` SMs that all end together; warp i starts i * stagger later."""
    out = np.zeros(sms * warps, SPAN)
    total = round(cycles_per_kstep * KSTEPS * warps)
    for row in range(len(out)):
        sm, warp = divmod(row, warps)
        start = 1000 * sm + warp * stagger
        out[row] = (start, 1000 * sm + total, 2 * start, 2 * (1000 * sm + total), sm, 0)
    return out


def fields_in_c(header: Path, struct: str) -> list[tuple[str, str]]:
    """Name and type of the members that a struct declares before its first function."""
    found = re.search(
        rf"^struct {struct} {{\n((?:  \w+ [\w, ]+;\n)+)", header.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found, f"{struct} is not in {header.name}"
    lines = [line.strip(" ;").split(" ", 1) for line in found[1].splitlines()]
    return [(name, kind) for kind, names in lines for name in names.split(", ")]


def test_what_c_writes_is_what_python_reads() -> None:
    kinds = {"<u8": "uint64_t", "<u4": "uint32_t"}
    assert fields_in_c(CUDA_DIR / "span.cuh", "WarpSpan") == [(name, kinds[kind]) for name, kind in SPAN.descr]
    resources = [name for name, _ in KernelResources._fields_]
    assert fields_in_c(CUDA_DIR / "resources.cuh", "KernelResources") == [(name, "int") for name in resources]


def test_another_order_in_c_would_be_seen(tmp_path: Path) -> None:
    text = (CUDA_DIR / "span.cuh").read_text(encoding="utf-8")
    (tmp_path / "span.cuh").write_text(text.replace("start_clock, end_clock", "end_clock, start_clock"))
    changed = fields_in_c(tmp_path / "span.cuh", "WarpSpan")
    assert sorted(changed) == sorted(fields_in_c(CUDA_DIR / "span.cuh", "WarpSpan"))
    assert changed != fields_in_c(CUDA_DIR / "span.cuh", "WarpSpan")


def test_the_span_is_last_end_minus_first_start() -> None:
    found = sm_spans(spans(24.0, stagger=50))
    assert found.cycles_per_kstep(KSTEPS) == pytest.approx([24.0] * 4)
    assert found.clock_mhz == pytest.approx(500.0)
    per_warp = np.mean([row["end_clock"] - row["start_clock"] for row in spans(24.0, stagger=50)])
    assert BYTES * KSTEPS * 16 / per_warp > 128  # what averaging per-warp spans would have reported


def test_a_rate_at_the_limit_passes_and_one_above_names_both() -> None:
    check_limits(sm_spans(spans(24.0)), KSTEPS, BYTES, None, "A3:load")
    with pytest.raises(BenchError, match=r"A3:load: 130\.\d\d B/clk/SM is above the limit of 128 B/clk/SM"):
        check_limits(sm_spans(spans(23.6)), KSTEPS, BYTES, None, "A3:load")


def test_multiplying_faster_than_the_tensor_cores_is_refused() -> None:
    floor = mma_floor_cycles_per_kstep("8.0")
    assert floor == 32.0
    check_limits(sm_spans(spans(32.0)), KSTEPS, 0, floor, "mma")
    with pytest.raises(BenchError, match=r"31\.00 cycles per warp k-step is below the tensor cores' floor of 32\.00"):
        check_limits(sm_spans(spans(31.0)), KSTEPS, 0, floor, "mma")


def test_an_unknown_chip_has_no_floor() -> None:
    assert mma_floor_cycles_per_kstep("99.0") is None


def test_residency_is_checked_in_both_ways() -> None:
    good = sm_spans(spans(24.0))
    check_residency(good, 4, 2, 8, "A1:load")
    with pytest.raises(BenchError, match="4 of 5 SMs ran blocks"):
        check_residency(good, 5, 2, 8, "A1:load")
    lopsided = spans(24.0)
    lopsided["sm"][16:24] = 0
    with pytest.raises(BenchError, match=r"SM 0 ran 3 blocks, intended 2"):
        check_residency(sm_spans(lopsided), 4, 2, 8, "A1:load")
