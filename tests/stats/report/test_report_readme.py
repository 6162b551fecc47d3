"""Pages are made whole or left alone, the check says what differs, where and how, and nothing is stale in silence."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from stats.base import files
from stats.base.errors import BenchError, UserError
from stats.record.provenance import PACKAGE_ROOT, todays_hash
from stats.report.readme import Finding, find_folder, read_pages, write_pages
from tests.makers.page_files import ARMS, FIGURES, put_pages
from tests.makers.report_records import FLAGS, KERNEL, gemm_record, micro_record, written

GOLDEN = Path(__file__).parents[2] / "golden"
VALUE = '{{ pairs["A1", "A3"].cycles_percent | fmt("+.1f") }}'


@pytest.fixture(scope="module")
def small_record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record, written once."""
    return written(gemm_record(processes=2, blocks=2), tmp_path_factory.mktemp("record") / "gemm.jsonl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for templates and their figures."""
    return tmp_path


def findings(folder: Path, root: Path = PACKAGE_ROOT) -> list[Finding]:
    return [finding for page in read_pages(folder, root=root) for finding in page.findings()]


def make(folder: Path, root: Path = PACKAGE_ROOT) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in write_pages(read_pages(folder, root=root))]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_template_becomes_the_golden_page_and_a_picture_that_is_not_its_own_differs(folder: Path) -> None:
    (folder / "results").mkdir()
    written(micro_record(blocks=4), folder / "results" / "micro.jsonl")
    written(gemm_record(blocks=4), folder / "results" / "gemm.jsonl")
    shutil.copy(GOLDEN / "verdicts.json", folder / "results")
    put_pages(folder, (GOLDEN / "figures.yaml").read_text(), readme=(GOLDEN / "skeleton.md").read_text())
    made = ["docs/ladder.svg", "docs/paired.png", "README.md"]
    assert make(folder) == made
    if os.environ.get("WRITE_GOLDEN"):
        shutil.copy(folder / "README.md", GOLDEN / "filled.md")
    assert (folder / "README.md").read_text() == (GOLDEN / "filled.md").read_text()
    before = contents(folder)
    (page,) = pages = read_pages(folder)
    assert page.findings() == []
    assert write_pages(pages) == []
    assert contents(folder) == before

    picture = folder / "docs" / "ladder.svg"
    picture.write_bytes(re.sub(rb"smem-bench \w{8}", b"smem-bench 00000000", picture.read_bytes()))
    (folder / "docs" / "paired.png").unlink()
    assert [(found.where, found.differs) for found in page.findings()] == [
        ('docs/pages/README.md:9: {{ figure("ladder") }}', "docs/ladder.svg shows other figures"),
        (
            'docs/pages/README.md:15: {{ figure("paired") }}',
            "docs/paired.png cannot be read (No such file or directory)",
        ),
    ]
    (folder / "README.md").unlink()
    assert [path.relative_to(folder).as_posix() for path in write_pages(pages)] == made
    assert contents(folder) == before  # and bytes do not change from one drawing to the next


def test_a_page_under_docs_links_its_figure_from_there(folder: Path, small_record: Path) -> None:
    shutil.copy(small_record, folder / "gemm.jsonl")
    put_pages(folder, readme='{{ figure("run") }}\n', method='{{ figure("run") }}\n')
    assert make(folder) == ["docs/run.svg", "README.md", "docs/method.md"]
    assert "](docs/run.svg)" in (folder / "README.md").read_text()
    assert "](run.svg)" in (folder / "docs" / "method.md").read_text()
    head = "<!-- made from docs/pages/method.md by make readme; edit that -->\n\n"
    assert (folder / "docs" / "method.md").read_text().startswith(head)


TEMPLATE = f"# T\n\nA1 takes {VALUE} % more than A3, of {{{{ given.peak }}}}.\n\n{{{{ table('arms') }}}}\n\nThe end.\n"


@pytest.mark.parametrize(
    ("old", "new", "where", "detail"),
    [
        (r"takes \S+ %", "takes +99.9 %", f"3: {VALUE}", r"-A1 takes \+99\.9 %"),
        ("989", "990", "3: {{ given.peak }}", r"\+A1 .* 989 TFLOPS\.$"),
        (r"\| A2L \|", "| A2X |", "5: {{ table('arms') }}", r"-\| A2X \|.*\n\+\| A2L \|"),
        ("The end", "The END", "7: the text", r"README\.md:1\d\n-The END\.\n\+The end\."),
        ("# T\n", "# T\nmore\n", r"2: the text", r"-more"),
        ("The end.\n", "", "7: the text", r"\+The end\."),
        ("<!-- made .*\n", "", "1: the text", r"\+<!-- made from"),
        (r"\n", "\r\n", "", "README.md: only line ends differ"),
    ],
)
def test_a_page_edited_by_hand_is_found_with_line_and_field_and_how(
    folder: Path, old: str, new: str, where: str, detail: str
) -> None:
    put_pages(folder, readme=TEMPLATE)
    make(folder)
    assert findings(folder) == []
    text = (folder / "README.md").read_text()
    spoiled = re.sub(old, new, text, count=0 if "\r" in new else 1)
    assert spoiled != text
    (folder / "README.md").write_bytes(spoiled.encode())
    (found,) = findings(folder)
    assert found.where == (f"docs/pages/README.md:{where}" if where else "docs/pages/README.md")
    assert re.search(detail, found.differs)
    assert make(folder) == ["README.md"]
    assert (folder / "README.md").read_text() == text


def test_two_places_are_two_findings_and_a_changed_record_is_one(folder: Path) -> None:
    put_pages(folder, readme=TEMPLATE)
    make(folder)
    page = folder / "README.md"
    page.write_text(page.read_text().replace("| A2L |", "| A2X |").replace("The end", "The END"))
    assert [found.where.split(":")[1] for found in findings(folder)] == ["5", "7"]
    make(folder)
    record = folder / "arms.json"
    record.write_text(record.read_text().replace("5.11", "5.12"))
    assert [found.where for found in findings(folder)] == ["docs/pages/README.md:5: {{ table('arms') }}"]


def test_a_missing_page_and_one_that_is_no_text_differ(folder: Path) -> None:
    put_pages(folder, readme=TEMPLATE, method="# M\n")
    make(folder)
    (folder / "docs" / "method.md").unlink()
    (folder / "README.md").write_bytes(b"\xff\xfe")
    assert [found.differs for found in findings(folder)] == [
        "README.md is not UTF-8 text",
        "docs/method.md is not there",
    ]


def test_stale_figures_say_so_on_the_page_and_to_the_check(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / KERNEL).parent.mkdir(parents=True)
    shutil.copy(PACKAGE_ROOT / KERNEL, root / KERNEL)
    put_pages(folder, readme=f"{{{{ table('arms') }}}}\n\nIt is {VALUE} %.\n")
    measured = {"source_hash": todays_hash([KERNEL], FLAGS), "sources": [KERNEL], "build_flags": FLAGS}
    (folder / "arms.json").write_text(json.dumps(ARMS | measured))
    make(folder, root)
    assert findings(folder, root) == []
    page = folder / "README.md"
    assert "stale" not in page.read_text().lower()

    (root / KERNEL).write_text("// edited\n")
    now = todays_hash([KERNEL], FLAGS, root)
    stale = findings(folder, root)
    assert [bool(found.differs) for found in stale] == [True, True, False, False]
    assert all(str(now) in str(found.stale) for found in stale[2:])
    make(folder, root)
    line = f"> **STALE: recorded from kernel sources {todays_hash([KERNEL], FLAGS)}, today's are {now};"
    assert line in page.read_text()
    assert re.search(r"It is \+\d\.\d \(stale\) %\.", page.read_text())
    assert [found.differs for found in findings(folder, root)] == ["", ""]

    (root / KERNEL).unlink()
    assert f"{KERNEL} is no longer there" in str(findings(folder, root)[-1].stale)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{ arms", r"README\.md:2: the field has no end; close it with }}"),
        ("a\n{# arms", r"README\.md:2: Missing end of comment tag"),
        ("{{ }}", r"README\.md:1: {{  }}: unexpected"),
        ("a\n\n{{ a b }}", r"README\.md:3: {{ a b }}: chunk after expression; write {{ name\[row\]\.column }}"),
        (
            "{{ nix }}",
            r"README\.md:1: {{ nix }}: 'nix' is undefined; the names are arms, commands, figure, given, pairs",
        ),
        ("\n{% for x in arms %}{% endfor %}", r"README\.md:2: a template has fields only"),
        ('{% include "x" %}', "a template has fields only"),
        ("{{ table('nix') }}", r"table 'nix': figures\.yaml has the tables arms, pairs"),
        ("{{ figure('nix') }}", r"figure 'nix': figures\.yaml has the figures run"),
        ("{{ given.nix }}", r"given 'nix': figures\.yaml has the givens peak"),
        ("{{ commands('nix') }}", "commands 'nix': choose from micro-bench, gemm-bench, bench-stats"),
        ("{{ arms['A9'].cells }}", "row 'arm=A9': is none of 4 rows; there are arm=A1, arm=A2"),
        ("{{ arms['A1'].nix }}", "column 'nix': the columns are arm, cells"),
        ("{{ arms['A1', 'A3'].cells }}", r"\['A1', 'A3'\]: a row is named by arm"),
        ("{{ pairs['A1'].a }}", r"\['A1'\]: a row is named by a, b"),
        ("{{ pairs['A1', 'A3'].cycles_percent | fmt('.1q') }}", r"spec '\.1q': does not format"),
        ("{{ arms['A1'].time_us | fmt('.1f') }}", r"spec '\.1f': does not format '"),
        ("{{ arms['A1'].cells | nix }}", "No filter named 'nix'"),
        ("{{ pairs['A2L', 'A3'].disagreement }}", "column 'disagreement': was not measured in this row"),
        ("{{ arms }}", "names no figure"),
        ("{{ arms['A1'] }}", "names no figure"),
        ("{{ 5 }}", "names no figure"),
        ("{{ '5' ~ ' ms' }}", "names no figure"),
        ("{{ arms['A1'].cells.text }}", "names no figure"),
        ("{{ '5' | fmt }}", "fmt: formats a figure"),
        ("{{ arms['A1'].cells + 1 }}", "cannot be evaluated"),
        ("{{ 1 / 0 }}", "cannot be evaluated"),
        ("{{ arms.__class__ }}", "is unsafe"),
        ("{{ range(9) }}", "'range' is undefined"),
        ("x {{ table('arms') }}", "stands inside a line"),
        ("{{ table('arms') }} x", "stands inside a line"),
        ("{{ given.peak }} {{ table('arms') }}", "stands inside a line"),
    ],
)
def test_a_bad_template_is_named_with_its_line_and_nothing_is_written(folder: Path, text: str, message: str) -> None:
    put_pages(folder, method="# M\n", readme=text)
    before = contents(folder)
    with pytest.raises(UserError, match=message) as stop:
        read_pages(folder)
    assert str(stop.value).startswith("docs/pages/README.md:")
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        (
            "tables: {arms: {record: no.jsonl, table: arms}}",
            r"README\.md:2: {{ table\('arms'\) }}: .*no\.jsonl: cannot be",
        ),
        ("tables: {arms: {record: gemm.jsonl, table: nix}}", "query 'nix': gemm.jsonl has the tables"),
        ("tables: {arms: {record: gemm.jsonl, table: arms, columns: {nix: x}}}", "columns: no 'nix'; there are arm"),
        ("tables: {arms: {record: gemm.jsonl, table: arms, where: {arm: A9}}}", "row 'arm=A9': is none of"),
        ("tables: {arms: {file: gemm.jsonl, at: x}}", r"README\.md:2: "),
        ("tables: {arms: {record: gemm.jsonl}}", r"figures\.yaml:1: .*needs record and table, or else file"),
        ("tables: {arms: {record: gemm.jsonl, table: arms, file: x}}", "needs record and table, or else file"),
        ("tables: {arms: {record: a, table: b, where: {swizzle: true}}}", r"figures\.yaml:1: .*swizzle"),
        ("tables: {arms: {record: a, table: b, colour: red}}", r"figures\.yaml:1: .*colour"),
        ("tables: {given: {record: a, table: b}}", "given means something else in a template"),
        ("tables: {a-b: {record: a, table: b}}", "'a-b' is no name"),
        ("given: {x: {text: 5 ms}}", r"figures\.yaml:1: .*source"),
        ("given: {x: {text: 5 ms, source: ''}}", "source"),
        (
            "figures: {run: {record: gemm.jsonl, figure: run, file: a.jpg}}\n",
            r"file a\.jpg: is neither \.svg nor \.png",
        ),
        (
            "figures: {run: {record: gemm.jsonl, figure: nix, file: a.svg}}\n",
            "figure 'nix': gemm.jsonl has the figures",
        ),
    ],
)
def test_a_bad_entry_is_refused_and_nothing_is_written(
    folder: Path, small_record: Path, figures: str, message: str
) -> None:
    shutil.copy(small_record, folder / "gemm.jsonl")
    text = "\n{{ figure('run') }}\n" if figures.startswith("figures") else "\n{{ table('arms') }}\n"
    put_pages(folder, f"{figures}\n", readme=text)
    before = contents(folder)
    with pytest.raises(UserError, match=message):
        read_pages(folder)
    assert contents(folder) == before


def test_a_row_that_fits_twice_is_refused(folder: Path) -> None:
    put_pages(folder, FIGURES.replace("[a, b]", "b"), readme="{{ pairs['A3'].cycles_percent }}")
    with pytest.raises(UserError, match="row 'b=A3': fits 2 of 2 rows; name one"):
        read_pages(folder)


def test_a_record_with_nothing_accepted_is_named_with_the_line(folder: Path) -> None:
    throttled = {(process, block): "HwSlowdown" for process in range(2) for block in range(4)}
    written(gemm_record(processes=2, blocks=4, throttled=throttled), folder / "gemm.jsonl")
    figures = "tables: {pairs: {record: gemm.jsonl, table: comparisons, by: [a, b]}}\n"
    put_pages(folder, figures, readme="\n{{ table('pairs') }}\n")
    with pytest.raises(
        BenchError, match=r"README\.md:2: .*gemm\.jsonl: 0 accepted of 8 whole blocks \(HwSlowdown: 8\)"
    ):
        read_pages(folder)


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_failing_write_leaves_every_page_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    put_pages(folder, readme=TEMPLATE, method=TEMPLATE, other=TEMPLATE)
    (folder / "README.md").write_text("old\n")
    before, pages = contents(folder), read_pages(folder)
    whole, count = files._staged, 0

    def full(*arguments: object) -> str:
        nonlocal count
        count += 1
        if count == failing:
            raise OSError(28, "No space left on device")
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "_staged", full)
    with pytest.raises(UserError, match=r"\.md: cannot be written \(No space left on device\); it is as it was"):
        write_pages(pages)
    assert contents(folder) == before


def test_mode_and_links_survive(folder: Path) -> None:
    put_pages(folder, readme="title\n")
    (folder / "real.md").write_text("old")
    (folder / "real.md").chmod(0o640)
    (folder / "README.md").symlink_to("real.md")
    make(folder)
    assert (folder / "README.md").is_symlink()
    assert (folder / "real.md").read_text().endswith("title\n")
    assert (folder / "real.md").stat().st_mode & 0o777 == 0o640


def test_templates_are_found_from_the_folder_or_one_above(folder: Path) -> None:
    with pytest.raises(UserError, match=r"holds docs/pages/figures\.yaml; name the checkout"):
        find_folder(folder)
    (put_pages(folder) / "results" / "deep").mkdir(parents=True)
    assert find_folder(folder) == find_folder(folder / "results" / "deep") == folder
    with pytest.raises(UserError, match="holds no template; write one"):
        read_pages(folder)
    (folder / "docs" / "pages" / "x.md").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"docs/pages/x\.md: not UTF-8 text"):
        read_pages(folder)


def test_untraced_finds_figures_with_units_outside_fields(folder: Path) -> None:
    text = (
        "A1 takes 34.0 cycles, 12 % more.\n{# two\nlines: 9 ms #}\nNow {{ given.peak }} and `5 ms`, <!-- 6 ms -->\n"
        f"{VALUE} % but 1–5 % here, in 3 steps of version 1.2, 7 per cent.\n```\n7 MHz\n```\n{{{{ table('arms') }}}}\n"
    )
    (page,) = read_pages(put_pages(folder, readme=text))
    assert [(one.line, one.text) for one in page.untraced] == [
        (1, "34.0 cycles"),
        (1, "12 %"),
        (5, "1–5 %"),
        (5, "7 per cent"),
    ]
