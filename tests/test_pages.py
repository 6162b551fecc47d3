"""The pages as they are: short, without marks, linked soundly, with figures that are used and commands that exist.

What a page says of a command is held against the command line's own parser, and its Python examples are run.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from stats.base import errors
from stats.report.commands import APPS, command_of, walk
from stats.report.page_figures import read_figures
from stats.report.untraced import without_code

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = sorted((ROOT / "docs" / "pages").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROSE = [*PAGES, ROOT / "CONTRIBUTING.md"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# Form


def test_the_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_page_has_its_template() -> None:
    assert {path.name for path in PAGES} == {path.name for path in TEMPLATES}


def comments(text: str) -> list[int]:
    """Lines that hold an HTML comment or a field of a template, outside code."""
    return [number for number, line in enumerate(without_code(text).splitlines(), 1) if re.search("<!--|-->|{{", line)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_mark_stands_inside_a_page(page: Path) -> None:
    text = page.read_text()
    assert comments(text) == [1]
    assert text.startswith("<!-- made from docs/pages/")


def test_a_mark_would_be_found() -> None:
    assert comments("a\nb <!-- x --> c\n`<!--`\n```\n{{ a }}\n```\n{{ b }}\n") == [2, 7]


def unused(names: list[str], texts: list[str]) -> list[str]:
    """Names that no template asks for."""
    fields = " ".join(field for text in texts for field in re.findall(r"{{(.*?)}}", text, re.DOTALL))
    return [name for name in names if not re.search(rf"\b{name}\b", fields)]


def test_every_figure_that_is_declared_stands_on_a_page() -> None:
    figures = read_figures(ROOT / "docs" / "pages" / "figures.yaml")
    texts = [path.read_text() for path in TEMPLATES]
    assert unused([*figures.tables, *figures.figures, *figures.given], texts) == []
    assert unused(["ladder", "paired"], ["ladder {{ table('ladder') }} paired"]) == ["paired"]


def test_the_citation_is_of_this_version() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert f"\nversion: {version[1]}\n" in (ROOT / "CITATION.cff").read_text()


# Links


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", without_code(text.replace("`", "")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """Link targets of ``text`` that are no file beside ``page``, and anchors that are no heading of theirs."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        target, _, anchor = link.partition("#")
        if target.startswith(("https://", "mailto:")):
            continue
        path = (page.parent / target) if target else page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PROSE, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_would_be_found() -> None:
    text = (
        "[a](docs/method.md) [b](docs/nix.md) [c](docs/method.md#two-clocks) [d](docs/method.md#nix) `[e](nix)` [f](#x)"
    )
    assert broken_links(ROOT / "README.md", text) == ["docs/nix.md", "docs/method.md#nix", "#x"]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=name_of)
def test_every_page_is_reached_from_the_readme_and_leads_to_the_others(page: Path) -> None:
    assert f"](docs/{page.name}" in (ROOT / "README.md").read_text()
    for other in PAGES:
        assert other == page or f"]({'../' if other.parent == ROOT else ''}{other.name}" in page.read_text()


# Commands


MODULES = {"python3 -m micro": "micro-bench", "python3 -m gemm": "gemm-bench", "python3 -m stats": "bench-stats"}


def examples(text: str) -> list[str]:
    """Every command line of the suite in a text: code spans and lines of fences without a language."""
    spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", text)
    lines = [
        line for fence in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL) for line in fence.split("\n")
    ]
    found = [" ".join(part.split()) for one in [*lines, *spans] for part in re.split(r"&&|\s#|>", one)[:1]]
    for module, tool in MODULES.items():
        found = [re.sub(rf"^{module}\b", tool, one) for one in found]
    return [one for one in found if one.split() and one.split()[0] in APPS]


def complaint(line: str) -> str:
    """What the command line's parser has against an example; nothing where it would run it."""
    tool, *words = shlex.split(line)
    command = command_of(tool)
    context = None
    try:
        while True:
            context = command.make_context(tool, list(words), parent=context)
            rest = [*getattr(context, "_protected_args", []), *context.args]
            if not rest or not hasattr(command, "commands"):
                return ""
            tool, command, words = command.resolve_command(context, rest)
    except (errors.UserError, typer.BadParameter.__bases__[0]) as error:
        return str(getattr(error, "message", None) or error)


def names_a_command(line: str) -> bool:
    """Whether an example only names a command: what its arguments are stands elsewhere."""
    return line in {path for tool in APPS for path, _ in walk(command_of(tool), tool)}


FOUND = [(name_of(page), line) for page in PROSE for line in examples(page.read_text())]


@pytest.mark.parametrize("line", sorted({line for _, line in FOUND}))
def test_examples_are_what_the_commands_take(line: str) -> None:
    assert names_a_command(line) or complaint(line) == ""


def test_there_are_examples_on_every_page() -> None:
    assert {page for page, _ in FOUND} >= {name_of(page) for page in PROSE}
    assert len(FOUND) > 60


@pytest.mark.parametrize(
    "line",
    [
        "micro-bench --do-nothing",
        "micro-bench nix",
        "bench-stats compare r.jsonl --c A1",
        "gemm-bench explain nix",
        "micro-bench --clocks nix",
        "bench-stats plan",
        "bench-stats show r.jsonl --device 0",
    ],
)
def test_an_example_of_what_is_not_there_is_found(line: str) -> None:
    assert examples(f"`{line}`") == examples(f"```\n{line}   # comment\n```\n") == [line]
    assert names_a_command(line) or complaint(line)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = "\n".join(re.sub(r"^#.*", "", page.read_text(), flags=re.MULTILINE) for page in PROSE)
    named = {word for line in re.findall(r"(?:^|`)make ([a-z -]+)", texts, re.MULTILINE) for word in line.split()}
    assert named
    assert named <= targets


# The reference


def test_the_reference_names_every_command_and_option() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    for tool in APPS:
        for path, command in walk(command_of(tool), tool):
            section = re.split(r"\n##+ ", text.partition(f"## {path}\n")[2])[0]
            assert section, path
            options = [option for param in command.params for option in param.opts if option.startswith("--")]
            assert [option for option in options if f"`{option}" not in section and option != "--help"] == []


def test_the_reference_names_every_variable_and_exit_status() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    sources = [path.read_text() for package in ("stats", "micro", "gemm") for path in (ROOT / package).rglob("*.py")]
    used = {name for source in sources for name in re.findall(r"\bSMEM_BENCH_[A-Z]+\b", source)}
    assert used
    assert {name for name in used if f"`{name}`" not in text} == set()
    assert set(re.findall(r"`(SMEM_BENCH_[A-Z]+)`", text)) == used
    assert f"| {errors.EXIT_FAILED} | a measurement" in text
    assert f"| {errors.EXIT_BAD_INPUT} | bad input" in text
    assert f"({errors.EXIT_INTERRUPTED} Ctrl+C" in text


# The Python examples


def scripts() -> dict[str, str]:
    """The Python examples of the page on own code, by the heading above each."""
    text = (ROOT / "docs" / "your-gpu.md").read_text()
    return dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


def outcome(script: str, folder: Path) -> str:
    """What a script prints when run in ``folder`` as a user would."""
    (folder / "mine.py").write_text(script)
    command = [sys.executable, "mine.py"]
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_of_a_layout_runs(tmp_path: Path) -> None:
    totals = re.findall(r"total=(\d+)", outcome(scripts()["Your own layout"], tmp_path))
    assert totals == ["32", "1", "16"]


def test_the_example_of_timings_makes_a_record_to_compare(tmp_path: Path) -> None:
    quick = scripts()["Your own timings"].replace("TrialSpec(", "TrialSpec(processes=2, blocks=2, warmup_blocks=0, ")
    outcome(quick, tmp_path)
    command = [sys.executable, "-m", "stats", "compare", "mine.jsonl", "--metric", "time", "--fail-on", "never"]
    env = {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "reversed" in done.stdout


def test_the_example_of_kernels_names_what_exists() -> None:
    tree: Any = ast.parse(scripts()["Your own kernels"])
    names = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(names) >= {"function_arms", "TrialSpec", "run_trials"}
    for name, module in names.items():
        exec(f"from {module} import {name}")
    from stats import TrialSpec

    (call,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "TrialSpec"
    ]
    TrialSpec(**{keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg})
