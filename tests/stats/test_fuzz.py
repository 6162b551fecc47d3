"""Whatever is in a config, a record or a page: it is read, or refused in one line; nothing is half written.

Inputs are real ones, damaged: the named configs, records as a run writes them, a template. Damage at random
reaches the code behind the first check, where text made up from nothing would not.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemm.explain.stream import StreamConfig
from gemm.kernel.arguments import parse_shape
from gemm.ladder.config import GemmConfig
from micro.bench.contention.design import ContentionConfig
from micro.bench.instructions.design import InstructionsConfig
from micro.bench.read_path.config import MicroConfig
from micro.counters.config import CountersConfig
from micro.gpu.ncu import parse_instances, parse_names, parse_raw
from stats.analysis.compare import analyse
from stats.analysis.compare_text import comparison_rows
from stats.base.config import config_names, find_config, load_config
from stats.base.errors import BenchError, UserError
from stats.base.tables import to_json
from stats.record.reader import read_record
from stats.record.schema import Record
from stats.report.readme import read_pages, write_pages
from stats.report.show import shown
from stats.report.source import Library
from tests.makers.page_files import put_pages
from tests.makers.report_records import gemm_record, micro_record, written

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MODELS = [GemmConfig, MicroConfig, InstructionsConfig, ContentionConfig, CountersConfig, StreamConfig]


def attempt(call: Callable[[], Any], error: type[BenchError] = BenchError) -> tuple[Any, str]:
    """What ``call`` returns and an empty text, or None and its refusal."""
    try:
        return call(), ""
    except error as refusal:
        message = " ".join(str(refusal).split())  # as the commands print it
    assert message
    return None, message


# Damage: cut something out, put something in, do a line twice


@st.composite
def damage(draw: st.DrawFn, noise: st.SearchStrategy[str]) -> Callable[[str], str]:
    """A function that damages a text in up to three places."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(["cut", "put", "twice", "swap"]), st.floats(0, 1), st.integers(0, 60), noise),
            min_size=1,
            max_size=3,
        )
    )

    def apply(text: str) -> str:
        for what, place, length, extra in steps:
            at = int(place * len(text))
            lines = text.splitlines(keepends=True) or [""]
            line = min(int(place * len(lines)), len(lines) - 1)
            if what == "cut":
                text = text[:at] + text[at + length :]
            elif what == "put":
                text = text[:at] + extra + text[at:]
            elif what == "twice":
                text = "".join([*lines[: line + 1], *lines[line:]])
            else:
                other = length % len(lines)
                lines[line], lines[other] = lines[other], lines[line]
                text = "".join(lines)
        return text

    return apply


YAML_NOISE = st.sampled_from(
    [
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "  ",
        "\t",
        "&a ",
        "*a",
        "!!python/object:os.system ",
        "#",
        "'",
        '"',
        "0x",
        "1e400",
        ".nan",
        "-1",
        "99999999999999999999",
        "null",
        "~",
        "on",
        "<<: ",
        "\x00",
        "é",
        "|\n",
    ]
)


@given(st.sampled_from(config_names()), st.sampled_from(MODELS), damage(YAML_NOISE))
@settings(FEW, max_examples=150)
def test_a_damaged_config_is_read_or_refused_naming_the_file(
    tmp_path: Path, name: str, model: type[Any], spoil: Callable[[str], str]
) -> None:
    path = tmp_path / "spoilt.yaml"
    path.write_text(spoil(find_config(name).read_text(encoding="utf-8")), encoding="utf-8")
    config, refusal = attempt(lambda: load_config(path, model), UserError)
    assert isinstance(config, model) or refusal.startswith(f"{path}:")


# Records


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    folder = tmp_path_factory.mktemp("whole")
    records: list[Record] = [gemm_record(processes=2, blocks=2), micro_record(processes=2, blocks=2)]
    whole = [written(record, folder / f"{number}.jsonl").read_text() for number, record in enumerate(records)]
    return lambda number: whole[number]  # a list would be printed in full by a failing example


JSON_NOISE = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        ",",
        '"',
        ":",
        "\n",
        "null",
        "NaN",
        "-Infinity",
        "1e999",
        "-0.0",
        "true",
        "\\ud800",
        "0",
        "\x00",
        '"arm":"A9",',
        '"block":-1,',
        '"process":10000000000000000000000,',
        '"time_ns":"x",',
        "é",
        "[[[[[[[[",
    ]
)
VALUES = st.sampled_from(
    [None, 0, -1, 1, 10**9, 2**70, 1e-320, 1e308, "", "A1", "nan", True, [], {}, [["A1", "A3"]], "é\n"]
)


def every_output(path: Path) -> None:
    """What a person may ask of a record; each may refuse, none may crash."""
    record, refusal = attempt(lambda: read_record(path), UserError)
    if record is None:
        assert refusal.startswith(str(path))
        return
    rows, _ = attempt(lambda: comparison_rows(analyse(record)))
    if rows is not None:
        assert isinstance(to_json(rows), str)  # strict: no nan in any output
    text, _ = attempt(lambda: shown(Library().source(path), "json"))
    assert text or text is None


@given(st.integers(0, 1), damage(JSON_NOISE))
@FEW
def test_a_damaged_record_is_analysed_or_refused(
    tmp_path: Path, texts: Callable[[int], str], which: int, spoil: Callable[[str], str]
) -> None:
    path = tmp_path / "spoilt.jsonl"
    path.write_text(spoil(texts(which)), encoding="utf-8", errors="surrogatepass")
    every_output(path)


@given(st.integers(0, 1), st.integers(0, 30), st.integers(0, 40), VALUES)
@settings(FEW, max_examples=60)
def test_a_record_with_an_odd_value_is_analysed_or_refused(
    tmp_path: Path, texts: Callable[[int], str], which: int, line: int, number: int, value: Any
) -> None:
    lines = texts(which).splitlines()
    row = json.loads(lines[line % len(lines)])
    row[sorted(row)[number % len(row)]] = value
    lines[line % len(lines)] = json.dumps(row)
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    every_output(path)


# Pages

TEMPLATE = """# A page

Prose before; `{% raw %}{{ table }}{% endraw %}` {# aside #}.

{{ table('arms') }}

A1 is {{ pairs["A1", "A3"].cycles_percent | fmt("+.1f") }} %, {{- arms["A1"].cells -}} cells.

```
{% raw %}{{ table('arms') }}{% endraw %}
```

The card does {{ given.peak }}.

{{ table('pairs') }}
The end.
"""
FIELD_NOISE = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", "|", "[", ")", "'", '"', "fmt(", "%s", "..", "\n", "-", "\r\n", "\x00", "é"]
)


@given(damage(FIELD_NOISE), st.sampled_from(["README.md", "figures.yaml"]))
@settings(FEW, max_examples=60)
def test_a_damaged_template_becomes_a_page_or_nothing(tmp_path: Path, spoil: Callable[[str], str], name: str) -> None:
    put_pages(tmp_path, readme=TEMPLATE)
    page, damaged = tmp_path / "README.md", tmp_path / "docs" / "pages" / name
    page.write_text("old")
    damaged.write_bytes(spoil(damaged.read_text()).encode())
    pages, refusal = attempt(lambda: read_pages(tmp_path))
    if pages is None:
        assert "README.md:" in refusal or name in refusal  # a file that figures.yaml misnames fails in its field
        assert page.read_text() == "old"
    else:
        write_pages(pages)
        assert page.read_text().startswith("<!-- made from docs/pages/README.md")
        assert [found for made in read_pages(tmp_path) for found in made.findings()] == []
    assert {path.name for path in tmp_path.iterdir()} == {"arms.json", "README.md", "docs"}


# Texts from the command line and from other programs


@given(st.text(alphabet="0123456789x×X+- .eE\n", max_size=30) | st.text(max_size=20))
@settings(FEW, max_examples=200)
def test_any_shape_is_parsed_or_refused(text: str) -> None:
    shape, refusal = attempt(lambda: parse_shape(text), UserError)
    if shape is None:
        assert refusal.startswith("shape ")
    else:
        m, n, k = shape
        assert min(shape) > 0
        assert (m % 128, n % 128, k % 32) == (0, 0, 0)


RAW = (
    '==PROF== Connected\n"ID","Kernel Name","Grid Size","Block Size","smsp__cycles.sum","sass__op.sum"\n'
    '"","","","","cycle","inst"\n"0","k<1>(int)","(4, 1, 1)","(256, 1, 1)","1,234","8 (LDS: 5; HMMA: 3)"\n'
)


@given(damage(st.sampled_from(['"', ",", "\n", "(", ")", ";", ":", "==", "\x00", "9" * 30, "nan", "é", "\r"])))
@settings(FEW, max_examples=150)
def test_any_answer_of_ncu_is_read_or_refused(spoil: Callable[[str], str]) -> None:
    text = spoil(RAW)
    parse_names(text)
    launches, _ = attempt(lambda: parse_raw(text))
    for launch in launches or ():
        assert set(launch.values) == set(launch.text)
        for cell in launch.text.values():
            assert all(isinstance(count, int) for count in parse_instances(cell).values())


@given(st.text(alphabet=string.printable, max_size=60))
@settings(FEW)
def test_any_text_is_no_instances_or_some(text: str) -> None:
    assert all(label == label.strip() for label in parse_instances(text))
