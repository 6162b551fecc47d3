"""Counter runs against a stand-in ncu: what is asked, what is read back, and every way in which ncu says no."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from micro.cli.counters import micro_tool, show
from micro.counters.compare import cause_rows, comparison_rows, difference_rows, equal_everywhere, summary_rows
from micro.counters.config import CountersConfig
from micro.counters.count import by_hand, run_counters
from micro.counters.record import CountersRecord, read_counters
from micro.counters.table import render_counters
from micro.gpu.ncu import Ncu, find_ncu
from micro.model.variants import VARIANTS
from stats.base.config import load_config
from stats.base.errors import BenchError, UserError
from stats.report.json_tables import json_table, read_document
from tests.stand_in.ncu import ROOT, write_ncu, write_target

CONFIG = load_config("counters", CountersConfig)
LAUNCHES = 2 * len(VARIANTS)  # of the stand-in target: each variant with the swizzle and without it
NAMES = {name for metric in CONFIG.metrics for name in metric.names if metric.listed} | {
    "smsp__warp_issue_stalled_barrier_per_warp_active.pct"
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that counts the stand-in target in a mood of the stand-in ncu."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")

    def counted(
        mood: str = "", *, names: set[str] = NAMES, broken: bool = False, keep: Path | None = None
    ) -> CountersRecord:
        monkeypatch.setenv("STAND_IN_NCU", mood)
        module = write_target(tmp_path, broken=broken)
        tool = dataclasses.replace(micro_tool(CONFIG, None, "both", 0), module=module)
        return run_counters(tool, CONFIG, Ncu(write_ncu(tmp_path, names)), device_index=0, keep=keep)

    return counted


def test_every_predicted_counter_is_compared_and_equal(run) -> None:
    record = run()
    rows = comparison_rows(record)
    assert len(rows) == LAUNCHES * sum(metric.predicted is not None for metric in CONFIG.metrics)
    assert {row["difference"] for row in rows} == {0}
    assert difference_rows(record) == []
    assert "equals its prediction to the last" in render_counters(record, "table")
    assert record.launches[0].opcodes == {"HMMA": 1000, "LDS": 234}
    assert [row.model_dump() for row in record.launches[0].addresses] == [
        {"instructions": 1, "first": "0x0", "executed": 10, "wavefronts": 10, "ideal": 10, "tags": 10},
        {"instructions": 1, "first": "0x10", "executed": 20, "wavefronts": 20, "ideal": 20, "tags": 20},
    ]


def test_one_wavefront_more_is_a_difference_of_the_launch(run) -> None:
    rows = difference_rows(run("one more"))
    assert {(row["key"], row["difference"]) for row in rows} == {("load_wavefronts", 1)}
    assert len(rows) == LAUNCHES
    assert rows[0]["parts"] == f"{rows[0]['predicted']} main loop"
    assert rows[0]["cause"].startswith("inferred: arbitration in L1")


def test_causes_name_all_launches_and_the_span_of_the_differences(run) -> None:
    record = run("one more")
    (row,) = cause_rows(record)
    assert (row["key"], row["launches"], row["difference"]) == ("load_wavefronts", f"all {LAUNCHES} launches", "+1")
    assert row["standing"] == "inferred"
    assert "load_wavefronts" not in equal_everywhere(record)
    assert {"lds", "ldsm", "lds_wavefronts", "ldsm_wavefronts"} <= set(equal_everywhere(record))
    assert {(each["equal"] + 1, each["explained"], each["open"]) for each in summary_rows(record)} == {
        (summary_rows(record)[0]["compared"], 1, 0)
    }


RESULTS = {
    "micro": (ROOT / "results/counters-micro-h200.json", set()),
    "gemm": (ROOT / "results/counters-gemm-h200.json", set()),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_the_recorded_h200_counts_are_the_predicted_ones_and_one_metric_is_open(kind: str) -> None:
    path, open_keys = RESULTS[kind]
    record = read_counters(path)
    for row in summary_rows(record):
        for key in ("lds", "ldsm", "wavefronts", "conflicts"):
            assert row[key] == row[f"{key}_predicted"]
    exact = {"lds", "ldsm", "hmma", "lds_wavefronts", "ldsm_wavefronts", "sts_wavefronts", "ldgsts_requests"}
    assert exact <= set(equal_everywhere(record))
    assert {row["key"] for row in cause_rows(record) if row["standing"] == "open"} == open_keys
    # What the file carries for the README is what today's rules say.
    assert path.read_text(encoding="utf-8") == render_counters(record, "json")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("kind", RESULTS)
def test_the_report_fits_a_terminal(kind: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = render_counters(read_counters(RESULTS[kind][0]), "table").splitlines()
    assert max(len(line) for line in lines) <= columns
    assert any("128 = 128" in line for line in lines)
    assert any("104 = 104" in line for line in lines)


def test_one_count_off_is_shown_as_unequal() -> None:
    record = read_counters(RESULTS["gemm"][0])
    record.launches[0].counted["lds"] = 2.0 * record.launches[0].predicted_total("lds")
    text = render_counters(record, "table")
    assert "64 ≠ 32" in text
    assert text.count("≠") == 1
    assert "lds: +2,097,152 (A1)" in text


def test_a_name_that_the_chip_lacks_is_mapped_and_the_table_says_so(run) -> None:
    first, second = next(metric.names[:2] for metric in CONFIG.metrics if metric.key == "ldsm")
    record = run(names=NAMES - {first})
    metric = record.metric("ldsm")
    assert metric is not None
    assert metric.name == second
    text = " ".join(render_counters(record, "table").split())
    draft = "smsp__inst_executed_pipe_lsu_mem_shared_op_ld.sum: does not exist on this chip; measured by"
    measured_by = text.split(draft)[1].split(": ")[0]
    assert second in measured_by
    assert "smsp__warp_issue_stalled_*: exists (1 names)" in text


def test_a_metric_without_any_name_on_the_chip_is_missing_and_the_rest_is_counted(run) -> None:
    ldsm = next(metric.names for metric in CONFIG.metrics if metric.key == "ldsm")
    record = run(names=NAMES - set(ldsm))
    assert record.launches[0].counted["ldsm"] is None
    assert record.launches[0].counted["lds"] == record.launches[0].predicted_total("lds")
    text = " ".join(render_counters(record, "table").split())
    assert f"missing: ldsm: this chip has none of {', '.join(ldsm)}" in text
    assert "nan" not in text


def test_a_metric_that_only_the_run_refuses_is_dropped_and_named(run) -> None:
    record = run("unknown metric")
    metric = record.metric("opcodes")
    assert metric is not None
    assert metric.name is None
    assert "missing: opcodes: ncu refused sass__inst_executed_per_opcode" in render_counters(record, "table")
    assert record.launches[0].counted["lds"] == record.launches[0].predicted_total("lds")


def test_a_figure_that_is_not_available_is_null_with_a_reason(run) -> None:
    record = run("not available")
    assert {launch.counted["ldsm"] for launch in record.launches} == {None}
    assert "missing: ldsm: ncu printed no figure" in render_counters(record, "table")
    assert all(row["difference"] is None for row in comparison_rows(record) if row["key"] == "ldsm")


@pytest.mark.parametrize(
    ("mood", "error", "text"),
    [
        ("no permission", UserError, r"no permission to read the GPU's counters \(ERR_NVGPUCTRPERM\); run as root"),
        ("query refused", UserError, r"no permission to read the GPU's counters \(ERR_NVGPUCTRPERM\); run as root"),
        ("sandbox", UserError, "LibraryNotLoaded"),
        ("no such kernel", UserError, "kernel filter 'micro_kernel' matched nothing"),
        ("lost launch", BenchError, f"counted {LAUNCHES - 1} launches, the target made {LAUNCHES}"),
        ("other kernel", BenchError, "A1:load: ncu counted another kernel in its place"),
    ],
)
def test_each_refusal_is_one_line(run, mood: str, error: type[BenchError], text: str) -> None:
    with pytest.raises(error, match=text) as raised:
        run(mood)
    assert "\n" not in str(raised.value)


def test_a_target_that_fails_says_why_in_its_own_words(run) -> None:
    with pytest.raises(BenchError, match=r"^A1:load: the counted launch read other data"):
        run(broken=True)


def test_no_ncu_is_one_line_that_names_the_option(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("micro.gpu.ncu._ELSEWHERE", ())
    with pytest.raises(UserError, match=r"ncu: not found; .* --ncu; everything else works without it"):
        find_ncu()
    with pytest.raises(UserError, match="--ncu nowhere: no such program"):
        find_ncu("nowhere")


def test_a_record_gives_the_same_tables_again_without_ncu(run, tmp_path: Path) -> None:
    record = run(keep=tmp_path / "kept")
    path = tmp_path / "counters.json"
    path.write_text(render_counters(record, "json"), encoding="utf-8")
    assert read_counters(path) == record
    for fmt in ("table", "md", "csv", "json"):
        assert show(path, fmt, record.tool).endswith(render_counters(record, fmt))
    summary = json_table(read_document(path, "counters.json"), "summary", "arm; wavefronts; wavefronts_predicted")
    assert summary.rows == json.loads(json.dumps(summary_rows(record)))
    assert {row["wavefronts"] for row in summary.rows if row["arm"] == "A3/noswz:load"} == {128}
    told = show(path, "table", record.tool)
    assert told.startswith("counters: recorded from kernel sources 0123456789ab; it names no files")
    kept = {file.name for file in (tmp_path / "kept").iterdir()}
    assert {"micro-bench.report.ncu-rep", "micro-bench.raw.csv", "micro-bench.query.txt"} <= kept
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_a_file_that_is_no_counter_record_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for content, says in (
        ("{", "not JSON at column 2"),
        ("[]", "is not a record"),
        ('{"kind": "counters"}', "schema version"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=says):
            read_counters(path)
    path.write_text(json.dumps({"kind": "counters", "schema_version": 1}), encoding="utf-8")
    with pytest.raises(UserError, match="missing; it has no default"):
        read_counters(path)


@pytest.mark.parametrize("module", ["micro", "gemm"])
def test_the_command_refuses_in_one_line_and_status_2(module: str, tmp_path: Path) -> None:
    def answer(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", module, "counters", *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            check=False,
        )
        assert done.stderr.count("\n") <= 2
        return done.returncode, done.stderr

    assert answer("--set", "full")[0] == 2
    assert "give --keep DIR" in answer("--set", "full")[1]
    status, text = answer("--ncu", str(write_ncu(tmp_path, NAMES)))
    assert status == 2
    assert "no CUDA device is visible" in text
    assert answer("--from", str(tmp_path / "none.json"))[0] == 2
    status, text = answer("--format", "xml")
    assert (status, "choose from table, md, csv, json" in text) == (2, True)


def test_the_line_by_hand_asks_for_every_metric_and_names_the_kernel() -> None:
    line = by_hand(micro_tool(CONFIG, "A1", "on", 0), CONFIG)
    assert line[0] == "ncu"
    assert line[line.index("--kernel-name") + 1] == "micro_kernel"
    assert line[line.index("--metrics") + 1].split(",") == [metric.names[0] for metric in CONFIG.metrics]
