"""Every figure is drawn from data that the analysis used, the same on every run, with n, units and verdict below."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from stats.analysis.levels import Level
from stats.base.errors import BenchError, UserError
from stats.report.blocks import digest
from stats.report.figures.data import build_figure, caption_of, figure_names
from stats.report.figures.draw import draw, image
from stats.report.figures.style import ImageFormat
from stats.report.model import Bar, Ladder, Mark, NotInRecord, Overlap, Paired, Predicted, RunTrace
from stats.report.source import Source
from tests.makers.report_records import LOAD, MMA, PREDICTED, gemm_record, make_record, micro_record

THROTTLED = {(2, 5): "HwThermalSlowdown"}


@pytest.fixture(scope="module")
def micro() -> Source:
    return Source(micro_record(throttled=THROTTLED), shown_as="results/micro.jsonl")


@pytest.fixture(scope="module")
def gemm() -> Source:
    return Source(gemm_record(), shown_as="results/gemm.jsonl")


def texts(figure: Any) -> list[str]:
    import matplotlib.text

    return [found.get_text() for found in figure.findobj(matplotlib.text.Text) if found.get_text()]


def built(source: Source, name: str, kind: type) -> Any:
    data = build_figure(source, name)
    assert isinstance(data, kind)
    return data


def test_names(micro: Source, gemm: Source) -> None:
    assert figure_names(micro) == ["ladder", "overlap", "predicted", "paired", "paired-time", "run"]
    assert figure_names(gemm) == ["ladder", "paired", "paired-time", "run"]
    other = Source(make_record({"a": 1.0, "b": 1.1}, tool="mine"))
    assert figure_names(other) == ["ladder", "paired", "paired-time", "run"]
    with pytest.raises(UserError, match=r"figure 'nix': example has the figures ladder, paired"):
        build_figure(other, "nix")


@pytest.mark.parametrize("name", ["ladder", "overlap", "predicted", "paired", "run"])
def test_same_bytes_on_every_run_and_no_date(micro: Source, name: str) -> None:
    data = build_figure(micro, name)
    if isinstance(data, Paired):
        data = dataclasses.replace(data, panels=data.panels[:2])
    for fmt in ("svg", "png"):
        first, second = (image("n", data, "caption", fmt, digest="d1234") for _ in range(2))
        assert first == second
        assert b"smem-bench d1234" in first
        assert not re.search(rb"<dc:date>|Creation Time|Matplotlib v", first)


@pytest.mark.parametrize("fmt", ["svg", "png"])
def test_last_digits_of_the_layout_do_not_show(
    micro: Source, fmt: ImageFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = build_figure(micro, "run")
    usual = image("n", data, "caption", fmt)
    lay_out = ConstrainedLayoutEngine.execute

    def laid_out_elsewhere_in_memory(engine: ConstrainedLayoutEngine, figure: Figure) -> Any:
        found = lay_out(engine, figure)
        for axes in figure.axes:
            axes.set_position([float(value) * (1 + 1e-14) for value in axes.get_position().bounds])
        return found

    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", laid_out_elsewhere_in_memory)
    assert image("n", data, "caption", fmt) == usual


def test_ladder_of_micro_stands_against_the_limit(micro: Source) -> None:
    data = built(micro, "ladder", Ladder)
    assert data.unit == "B/clk/SM"
    assert [mark.value for mark in data.marks] == [128]
    for bar in data.bars:
        if bar.label in LOAD:
            assert bar.level.low < bar.level.mean < bar.level.high
            assert bar.level.mean == pytest.approx(3072 / LOAD[bar.label], rel=2e-3)
    figure = draw(data, "below")
    drawn = texts(figure)
    assert "limit 128 B/clk/SM" in drawn
    assert "B/clk/SM" in drawn
    assert "below" in drawn
    (axes,) = figure.axes
    assert axes.get_xlim()[0] == 0  # bars that do not start at 0 make a small effect large


def test_ladder_of_gemm_stands_against_cublas_and_the_peak(gemm: Source) -> None:
    data = built(gemm, "ladder", Ladder)
    assert [bar.label for bar in data.bars] == ["A1", "A2", "A2L", "A3"]
    cublas, peak = data.marks
    assert cublas.label.startswith("cuBLAS ")
    assert cublas.low < cublas.value < cublas.high
    mhz = np.mean([cell.clock_mhz for cell in gemm.record.cells])
    assert peak.value == pytest.approx(132 * 4096 * mhz * 1e-6)
    assert "transposed on the host, outside the timing" in data.note
    time_ns = np.mean([cell.time_ns / cell.launches for cell in gemm.record.cells if cell.arm == "A1"])
    assert data.bars[0].level.mean == pytest.approx(2 * 4096**3 / time_ns * 1e-3, rel=1e-4)


def test_predicted_and_overlap_hold_the_known_levels(micro: Source) -> None:
    predicted = built(micro, "predicted", Predicted)
    assert {row.label: row.predicted for row in predicted.rows if row.label in PREDICTED} == PREDICTED
    overlap = built(micro, "overlap", Overlap)
    row = next(row for row in overlap.rows if row.label == "A3")
    assert row.mma.mean == pytest.approx(MMA, rel=2e-3)
    assert row.hidden_percent == pytest.approx(100 * (24.05 + 32.1 - 41.4) / 24.05, abs=1)
    assert any("61 % hidden" in text for text in texts(draw(overlap)))


def test_paired_shows_every_accepted_block_and_the_interval(gemm: Source) -> None:
    data = built(gemm, "paired", Paired)
    panel = next(panel for panel in data.panels if panel.label == "A2L against A3")
    assert [len(part) for part in panel.blocks_percent] == [20] * 8
    assert panel.low_percent < panel.effect_percent < panel.high_percent
    assert panel.effect_percent == pytest.approx(0.4, abs=0.1)
    everything = np.concatenate([np.array(part) for part in panel.blocks_percent])
    assert np.median(everything) == pytest.approx(panel.effect_percent, abs=0.05)
    assert "DIFFERENT" in panel.verdict
    figure = draw(data)
    low, high = figure.axes[3].get_ylim()
    assert low < -0.5 < 0 < 0.5 < high  # 0 and the margin are always in sight


def test_paired_leaves_out_what_the_rule_excluded(micro: Source) -> None:
    data = built(micro, "paired-time", Paired)
    assert [len(part) for part in data.panels[0].blocks_percent] == [20, 20, 19, 20, 20, 20, 20, 20]


def test_far_outliers_are_counted_not_hidden(gemm: Source) -> None:
    data = built(gemm, "paired", Paired)
    panel = data.panels[3]
    wild = dataclasses.replace(panel, blocks_percent=[[500.0, *panel.blocks_percent[0]], *panel.blocks_percent[1:]])
    figure = draw(dataclasses.replace(data, panels=[wild]))
    assert "1 of 161 blocks off the axis" in texts(figure)
    assert not any("off the axis" in text for text in texts(draw(data)))


def test_scatter_is_enlarged_where_the_effect_dwarfs_it(gemm: Source) -> None:
    data = built(gemm, "paired", Paired)
    far = dataclasses.replace(data, panels=data.panels[:1])
    assert "enlarged" not in texts(draw(far))  # 6 % with a scatter of 1 %
    still = [[25.0 + 0.01 * block for block in range(10)] for _ in range(8)]
    panel = dataclasses.replace(far.panels[0], blocks_percent=still, effect_percent=25.05)
    figure = draw(dataclasses.replace(far, panels=[panel]))
    assert "enlarged" in texts(figure)
    low, high = figure.axes[0].child_axes[0].get_ylim()
    assert 24.9 < low < 25.0 < 25.09 < high < 25.2


def test_run_trace_marks_processes_and_excluded_blocks(micro: Source) -> None:
    data = built(micro, "run", RunTrace)
    assert len(data.elapsed_s) == len(micro.record.cells)
    assert list(data.elapsed_s) == sorted(data.elapsed_s)
    assert data.starts == [process * 360 for process in range(8)]
    ((low, high),) = data.excluded_s
    assert low < high
    assert draw(data) is not None


def test_what_was_not_measured_is_said(gemm: Source) -> None:
    blind = Source(gemm_record(monitored=False))
    assert texts(draw(build_figure(blind, "run"))).count("not measured") == 2
    nan = Level(math.nan, math.nan, math.nan, 0.95, 0, "processes")
    point = Level(5.0, math.nan, math.nan, 0.95, 1, "processes")
    figure = draw(Ladder("t", "u", [Bar("a", nan), Bar("b", point)], [Mark("m", 6.0)]))
    assert "not measured" in texts(figure)
    assert "5.00" in texts(figure)


def test_caption_holds_n_device_clock_verdict_and_staleness(gemm: Source) -> None:
    caption = caption_of(gemm, build_figure(gemm, "ladder"))
    for part in (
        "n = 8 fresh processes, 160 blocks of 6 arms",
        "Example GPU (sm_90)",
        "monitored, not locked",
        "MHz measured",
        "record results/gemm.jsonl",
        "95 % t interval on process means",
        "A2L against A3 +0.399 % [+0.349, +0.449] DIFFERENT, EQUIVALENT",
    ):
        assert part in caption
    stale = Source(gemm_record(source_hash="0" * 16))
    assert "STALE: recorded from kernel sources 0000000000000000" in caption_of(stale, build_figure(stale, "run"))
    unnamed = Source(gemm_record(sources=[]))
    assert "names no files" in caption_of(unnamed, build_figure(unnamed, "run"))


def test_digest_follows_what_is_shown(gemm: Source) -> None:
    data = built(gemm, "ladder", Ladder)
    same = built(Source(gemm_record()), "ladder", Ladder)
    assert digest(data, "c") == digest(same, "c")
    other = built(Source(gemm_record(seed=1)), "ladder", Ladder)
    assert len({digest(data, "c"), digest(data, "d"), digest(other, "c")}) == 3


def test_a_record_that_cannot_show_it_says_so() -> None:
    one = Source(make_record({"a": 1.0}, tool="mine"))
    with pytest.raises(NotInRecord, match="nothing to compare"):
        build_figure(one, "paired")
    assert isinstance(build_figure(one, "ladder"), Ladder)
    loads = {"A1:load": 34.0, "A3:load": 24.0}
    micro = Source(make_record(loads, values=True))
    with pytest.raises(NotInRecord, match=r"--do-mma both"):
        build_figure(micro, "overlap")
    none = Source(gemm_record(processes=1, blocks=2, throttled={(0, 0): "HwSlowdown", (0, 1): "HwSlowdown"}))
    with pytest.raises(BenchError, match="0 accepted of 2 whole blocks"):
        build_figure(none, "paired")
    with pytest.raises(NotInRecord, match=r"no m, n, k"):
        build_figure(Source(gemm_record(workload={})), "ladder")
