"""A page is rebuilt whole or left alone, the check says what differs and how, and nothing is stale in silence."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from report_records import FLAGS, KERNEL, gemm_record, micro_record, usual, written

from stats.errors import BenchError, UserError
from stats.provenance import PACKAGE_ROOT, todays_hash
from stats.report import files
from stats.report.readme import read_page
from stats.report.untraced import untraced

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The skeleton of a README beside its records."""
    (tmp_path / "results").mkdir()
    usual(micro_record, tmp_path / "results" / "micro.jsonl")
    usual(gemm_record, tmp_path / "results" / "gemm.jsonl")
    shutil.copy(GOLDEN / "verdicts.json", tmp_path / "results")
    shutil.copy(GOLDEN / "skeleton.md", tmp_path / "README.md")
    return tmp_path / "README.md"


def small_page(folder: Path, text: str) -> Path:
    if not (folder / "gemm.jsonl").exists():
        usual(gemm_record, folder / "gemm.jsonl")
    path = folder / "page.md"
    path.write_bytes(text.encode())
    return path


VALUE = '<!-- bench:value record=gemm.jsonl query=comparisons row="a=A1 b=A3" column=cycles_percent spec=+.1f -->'
ARMS = "<!-- bench:table record=gemm.jsonl query=arms -->"
END = "<!-- /bench:table -->"


def test_skeleton_becomes_the_golden_page(page: Path) -> None:
    changed = read_page(page).write()
    assert {path.name for path in changed} == {"README.md", "ladder.svg", "paired.png"}
    golden = GOLDEN / "filled.md"
    if os.environ.get("WRITE_GOLDEN"):
        shutil.copy(page, golden)
    assert page.read_text() == golden.read_text()


def test_second_run_changes_nothing_and_the_check_is_content(page: Path) -> None:
    read_page(page).write()
    before = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    again = read_page(page)
    assert [finding.differs for finding in again.findings()] == [False] * len(again.blocks)
    assert again.write() == []
    assert {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()} == before


def test_two_runs_from_nothing_give_the_same_bytes(page: Path, tmp_path: Path) -> None:
    read_page(page).write()
    first = (page.read_bytes(), *((page.parent / "docs" / name).read_bytes() for name in ("ladder.svg", "paired.png")))
    shutil.rmtree(page.parent / "docs")
    shutil.copy(GOLDEN / "skeleton.md", page)
    read_page(page).write()
    assert first == (
        page.read_bytes(),
        *((page.parent / "docs" / name).read_bytes() for name in ("ladder.svg", "paired.png")),
    )


def test_check_says_which_block_differs_and_how(page: Path) -> None:
    read_page(page).write()
    text = page.read_text()
    page.write_text(text.replace("| A2L |", "| A2X |", 1).replace("+6.11", "+7.11", 1))
    found = [finding for finding in read_page(page).findings() if finding.differs]
    assert [finding.block.kind for finding in found] == ["value", "table"]
    assert found[0].detail == "the page says '+7.11', the record gives '+6.11'"
    assert "-| A2X |" in found[1].detail
    assert "+| A2L |" in found[1].detail
    line = page.read_text().splitlines()[found[1].block.line - 1]
    assert "bench:table" in line


def test_a_missing_or_foreign_picture_is_a_difference(page: Path) -> None:
    read_page(page).write()
    picture = page.parent / "docs" / "ladder.svg"
    picture.write_bytes(re.sub(rb"smem-bench \w{8}", b"smem-bench 00000000", picture.read_bytes()))
    (page.parent / "docs" / "paired.png").unlink()
    found = [finding.detail for finding in read_page(page).findings() if finding.differs]
    assert found == [
        "docs/ladder.svg shows other figures",
        "docs/paired.png cannot be read (No such file or directory)",
    ]
    assert len(read_page(page).write()) == 2


def test_stale_block_says_so_on_the_page_and_to_the_check(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / KERNEL).parent.mkdir(parents=True)
    shutil.copy(PACKAGE_ROOT / KERNEL, root / KERNEL)
    path = small_page(tmp_path, f"{ARMS}\n{END}\n{VALUE}<!-- /bench:value -->\n")
    fresh = read_page(path, root=root)
    fresh.write()
    assert [finding.stale for finding in fresh.findings()] == [None, None]
    assert "STALE" not in path.read_text()

    (root / KERNEL).write_text("// edited\n")
    now = todays_hash([KERNEL], FLAGS, root)
    stale = read_page(path, root=root)
    assert [finding.differs for finding in stale.findings()] == [True, True]
    assert all(str(now) in str(finding.stale) for finding in stale.findings())
    stale.write()
    assert (
        f"> **STALE: recorded from kernel sources {todays_hash([KERNEL], FLAGS)}, today's are {now};"
        in path.read_text()
    )
    assert "+6.1 (stale)<!--" in path.read_text()
    assert not any(finding.differs for finding in read_page(path, root=root).findings())

    (root / KERNEL).unlink()
    assert f"{KERNEL} is no longer there" in str(read_page(path, root=root).findings()[0].stale)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a\n{ARMS}\n", r"page\.md:2: bench:table has no end mark"),
        (f"a\n<!-- bench:table record=no.jsonl query=arms -->{END}", r"page\.md:2: .*no\.jsonl: cannot be read"),
        (
            f"<!-- bench:table record=gemm.jsonl query=nothing -->{END}",
            r"page\.md:1: query 'nothing': .* has the tables",
        ),
        (VALUE.replace("a=A1 ", "") + "<!-- /bench:value -->", r"page\.md:1: row 'b=A3': fits 2 of 4 rows; name one"),
        (VALUE.replace("a=A1", "a=A9") + "<!-- /bench:value -->", r"page\.md:1: row 'a=A9 b=A3': fits none of 4 rows"),
        (VALUE.replace("a=A1", "z=A1") + "<!-- /bench:value -->", r"no column 'z'; there are a, b"),
        (VALUE.replace("cycles_percent", "nix") + "<!-- /bench:value -->", r"column 'nix': the columns are a, b"),
        (VALUE.replace("+.1f", "+.1q") + "<!-- /bench:value -->", r"spec '\+\.1q': does not format"),
        (
            VALUE.replace("cycles_percent", "disagreement").replace("a=A1", "a=A2L") + "<!-- /bench:value -->",
            r"page\.md:1",
        ),
        (
            "<!-- bench:figure record=gemm.jsonl query=run file=a.jpg --><!-- /bench:figure -->",
            r"neither \.svg nor \.png",
        ),
        ("<!-- bench:figure record=gemm.jsonl query=x file=a.svg --><!-- /bench:figure -->", r"has the figures ladder"),
        (f"<!-- bench:table record=gemm.jsonl query=arms columns=nix -->{END}", r"columns: no 'nix'; there are arm"),
        (f"<!-- bench:table record=gemm.jsonl query=json at=x -->{END}", r"page\.md:1: "),
        (f'<!-- bench:table record=gemm.jsonl query=arms row="arm" -->{END}', r"'arm' is not key=value"),
    ],
)
def test_bad_input_leaves_the_page_alone(tmp_path: Path, text: str, message: str) -> None:
    path = small_page(tmp_path, text)
    with pytest.raises(UserError, match=message):
        read_page(path)
    assert path.read_bytes() == text.encode()
    assert {one.name for one in tmp_path.iterdir()} == {"page.md", "gemm.jsonl"}


def test_a_record_with_nothing_accepted_is_named_with_the_line(tmp_path: Path) -> None:
    throttled = {(process, block): "HwSlowdown" for process in range(2) for block in range(4)}
    written(gemm_record(processes=2, blocks=4, throttled=throttled), tmp_path / "gemm.jsonl")
    path = small_page(tmp_path, f"\n<!-- bench:table record=gemm.jsonl query=comparisons -->{END}")
    with pytest.raises(BenchError, match=r"page\.md:2: gemm\.jsonl: 0 accepted of 8 whole blocks \(HwSlowdown: 8\)"):
        read_page(path)


def test_a_failing_write_leaves_the_old_page_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small_page(tmp_path, f"{ARMS}\n{END}\n")
    read = read_page(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(UserError, match=r"page\.md: cannot be written \(No space left on device\)"):
        read.write()
    assert path.read_text() == f"{ARMS}\n{END}\n"
    assert {one.name for one in tmp_path.iterdir()} == {"page.md", "gemm.jsonl"}


def test_line_ends_mode_and_links_survive(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    path = small_page(real, f"title\r\n{ARMS}\r\n{END}\r\n")
    path.chmod(0o640)
    link = tmp_path / "real" / "link.md"
    link.symlink_to(path)
    read_page(link).write()
    content = path.read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") > 5
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert not any(finding.differs for finding in read_page(path).findings())


def test_not_text_and_not_there(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8 text"):
        read_page(tmp_path / "page.md")
    with pytest.raises(UserError, match=r"absent\.md: cannot be read \(No such file or directory\)"):
        read_page(tmp_path / "absent.md")


def test_untraced_finds_figures_with_units_outside_marks() -> None:
    text = (
        "A1 takes 34.0 cycles, 12 % more.\nNow <!-- bench:given -->128 B/clk/SM<!-- /bench:given --> and `5 ms`.\n"
        f"{VALUE}+6.1<!-- /bench:value --> % but 1–5 % here, in 3 steps of version 1.2.\n```\n7 MHz\n```\n"
    )
    assert [(one.line, one.text) for one in untraced(text, "p")] == [
        (1, "34.0 cycles"),
        (1, "12 %"),
        (3, "1–5 %"),
    ]
