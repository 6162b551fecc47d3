"""The HTML page stands alone and is the same on every run; exported cells come back with their types."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from micro.bench.read_path.library import SOURCE
from micro.gpu.build import FLAGS_FILE, NVCC_FLAGS, kernel_hash, kernel_sources
from stats.record.freshness import freshness
from stats.record.provenance import PACKAGE_ROOT, relative_sources, todays_hash
from stats.report.export import exported
from stats.report.html import html_report
from stats.report.model import Paired
from stats.report.source import Library, Source
from tests.makers.report_records import FLAGS, KERNEL, gemm_record, make_record, micro_record, written


class Outline(HTMLParser):
    """Tags that are open, ids, references and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "img"):
            self.open.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(str(value))
            if key in ("href", "src", "xlink:href"):
                self.links.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


NAMES = ["micro.jsonl", "gemm.jsonl", "mine.jsonl"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind, a page of all of them, and what a process of its own had imported to make it."""
    found = tmp_path_factory.mktemp("report")
    mine = make_record(
        {"a": 1.0, "b": 1.02}, tool="mine", skips={"c": "needs <sm_100>"}, source_hash="0" * 16, blocks=6
    )
    for name, record in zip(NAMES, (micro_record(blocks=6), gemm_record(blocks=6), mine), strict=True):
        written(record, found / name)
    code = (
        "import pathlib, sys; from stats.report.source import Library; from stats.report.html import html_report; "
        "text = html_report([Library().source(name) for name in sys.argv[1:]]); "
        "pathlib.Path('page.html').write_text(text, encoding='utf-8'); "
        "print([name for name in ('torch', 'pynvml', 'micro.gpu.build', 'gemm.kernel.library') if name in sys.modules])"
    )
    path = os.pathsep.join([str(PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *NAMES],
        capture_output=True, text=True, check=True, cwd=found, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    (found / "imported").write_text(done.stdout)
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "page.html").read_text(encoding="utf-8")


def test_reports_of_micro_and_gemm_need_neither_torch_nor_their_build(folder: Path) -> None:
    assert (folder / "imported").read_text() == "[]\n"


def test_page_is_well_formed_and_stands_alone(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(outline.ids)
    assert not re.search(r"<script|<link|@import|url\((?!#)|src=", page)
    assert set(re.findall(r"https?://[^\"' <]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_page_holds_what_a_reader_asks_for(page: str) -> None:
    outline = Outline()
    outline.feed(page)
    text = "".join(outline.text)
    for part in ("Declared comparisons", "A/A: the reference against itself", "Excluded blocks", "Warnings", "Clocks"):
        assert part in text
    assert "needs <sm_100>" in text  # escaped in the source, whole to the reader
    assert "STALE: recorded from kernel sources 0000000000000000" in text
    assert page.count("<svg") == 6 + 4 + 4
    assert 'name="viewport"' in page
    assert "@media print" in page


def test_page_is_the_same_on_every_run(folder: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert html_report([Library().source(name) for name in NAMES]) == page


def test_a_page_draws_the_first_of_many_comparisons_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[int] = []

    def drawn(name: str, data: Any, *_: object) -> bytes:
        panels.extend([len(data.panels)] if isinstance(data, Paired) else [])
        return b"<svg></svg>"

    monkeypatch.setattr("stats.report.html.image", drawn)
    few, many = 24, 25
    for count, shown in ((few, few), (many, few)):
        arms = dict.fromkeys((f"a{number}" for number in range(count + 1)), 1.0)
        compared = [(arm, f"a{count}") for arm in list(arms)[:-1]]
        source = Source(make_record(arms, blocks=2, processes=3, comparisons=compared, tool="mine"), shown_as="m.jsonl")
        page = html_report([source])
        assert panels == [shown, shown]  # cycles and time
        assert ("The first 24 of 25 comparisons; bench-stats plot draws all of them." in page) == (count == many)
        panels.clear()


def test_exported_cells_come_back_typed() -> None:
    record = micro_record(blocks=4, throttled={(1, 2): "HwSlowdown"}, monitored=False)
    source = Source(record, shown_as="m.jsonl")
    typed = pd.read_json(io.StringIO(exported([source], "pandas")), orient="table", precise_float=True)
    exactly = {"value_cycles_per_kstep": float}  # older pandas read the last digit of a float wrongly unless told
    plain = pd.read_csv(io.StringIO(exported([source], "csv")), converters=exactly)
    assert len(typed) == len(plain) == len(record.cells)
    assert str(typed["process"].dtype) == "int64"
    assert str(typed["accepted"].dtype) == "bool"
    assert str(typed["time_ns"].dtype) == "float64"
    assert list(typed["time_ns"]) == [cell.time_ns for cell in record.cells]
    assert list(plain["value_cycles_per_kstep"]) == [cell.values["cycles_per_kstep"] for cell in record.cells]
    assert typed["power_w"].isna().all()
    left_out = typed[~typed["accepted"]]
    assert set(zip(left_out["process"], left_out["block"], strict=True)) == {(1, 2)}
    assert set(left_out["throttle_reasons"]) == {"HwSlowdown"}
    assert list(typed.columns) == list(plain.columns)


def test_exported_skip_has_a_row_with_its_reason() -> None:
    source = Source(make_record({"a": 1.0}, tool="mine", skips={"c": "needs sm_100, sadly"}, blocks=2), shown_as="m")
    typed = pd.read_json(io.StringIO(exported([source], "pandas")), orient="table")
    row = typed.iloc[-1]
    assert (row["arm"], row["skipped"]) == ("c", "needs sm_100, sadly")
    assert str(typed["process"].dtype) == "Int64"
    assert pd.isna(row["process"])
    plain = pd.read_csv(io.StringIO(exported([source, source], "csv")))
    assert len(plain) == 2 * len(typed)
    assert json.loads(exported([source], "pandas"))["schema"]["fields"][0] == {"name": "record", "type": "string"}


def test_micro_hash_can_be_computed_from_the_header_alone(tmp_path: Path) -> None:
    sources = relative_sources(kernel_sources([SOURCE]))
    assert sources[0] == "micro/cuda/micro.cu"
    assert "micro/cuda/layout.cuh" in sources
    assert FLAGS_FILE.relative_to(PACKAGE_ROOT).as_posix() in sources
    assert todays_hash(sources, NVCC_FLAGS) == kernel_hash([SOURCE])
    for name in sources:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((PACKAGE_ROOT / name).read_bytes())
    assert freshness(kernel_hash([SOURCE]), sources, NVCC_FLAGS, tmp_path).state == "fresh"
    flags = tmp_path / FLAGS_FILE.relative_to(PACKAGE_ROOT)
    flags.write_text("-O2 -std=c++17\n")  # the record's own flags did not change, today's did
    assert freshness(kernel_hash([SOURCE]), sources, NVCC_FLAGS, tmp_path).state == "stale"


def test_states_of_freshness() -> None:
    assert freshness("none", [], []).state == "none"
    assert freshness("abc", [], []).state == "unknown"
    assert freshness(str(todays_hash([KERNEL], FLAGS)), [KERNEL], FLAGS).state == "fresh"
    assert freshness(str(todays_hash([KERNEL], FLAGS)), [KERNEL], ["-O2"]).state == "stale"
    assert freshness("abc", ["no/such.cu"], []).line == (
        "STALE: recorded from kernel sources abc, no/such.cu is no longer there; measure again before quoting"
    )


def test_a_kernel_that_only_moved_is_still_the_same(tmp_path: Path) -> None:
    kernel = "micro/cuda/ptx.cuh"
    recorded = str(todays_hash([kernel], FLAGS))
    moved = tmp_path / "micro" / "bench" / "cuda" / Path(kernel).name
    moved.parent.mkdir(parents=True)
    moved.write_bytes((PACKAGE_ROOT / kernel).read_bytes())
    assert freshness(recorded, [kernel], FLAGS, tmp_path).state == "fresh"
    (tmp_path / "micro" / moved.name).write_text("another of its name")
    assert "is no longer there" in str(freshness(recorded, [kernel], FLAGS, tmp_path).line)
    (tmp_path / "micro" / moved.name).unlink()
    moved.write_text("// edited")
    assert "today's are" in str(freshness(recorded, [kernel], FLAGS, tmp_path).line)
    for name in ("../micro/x.cu", "micro/..", "micro/**", "/abs/x.cu", "micro/a\0b"):
        assert freshness(recorded, [name], FLAGS, tmp_path).state == "stale"
