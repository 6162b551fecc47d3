"""``sass`` and ``banks`` as a person meets them: every format, a diff, pictures, and one line for bad input."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from micro.cli.static import parse_archs
from micro.gpu import toolchain
from micro.gpu.build import CUDA_DIR, compile_cubin
from micro.model.variants import VARIANTS
from stats.base.errors import UserError
from tests.ladder import WAVEFRONTS, WAVEFRONTS_NO_SWIZZLE


@pytest.fixture
def bench(run_command):
    return partial(run_command, "micro-bench")


def fails_in_one_line(result: tuple[int, str, str], *parts: str) -> None:
    status, out, err = result
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    for part in parts:
        assert part in err


def test_banks_in_every_format(bench):
    status, text, _ = bench("banks", "--format", "json")
    rows = json.loads(text)["rows"]
    assert status == 0
    totals = {(row["variant"], row["swizzle"]): row for row in rows if row["step"] == "all loads"}
    assert {key: row["wavefronts"] for key, row in totals.items()} == {
        (name, swizzle): expected[name]
        for swizzle, expected in (("on", WAVEFRONTS), ("off", WAVEFRONTS_NO_SWIZZLE))
        for name in expected
    }
    assert {row["excess"] for key, row in totals.items() if key[1] == "on"} == {0}
    stores = [row for row in rows if row["step"].startswith("store")]
    assert {(row["instructions"], row["wavefronts"], row["ways"]) for row in stores} == {(1, 4, 1)}

    _, text, _ = bench("banks", "--format", "csv")
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(rows)
    _, text, _ = bench("banks", "--format", "md", "--variants", "A3", "--swizzle", "off")
    assert "| A3 | off | load B | ldmatrix.x2.trans | 4 | 16 | 2 | 8 | 4 | 64 | 56 |" in text
    _, text, _ = bench("banks", "--variants", "A3,A1")
    assert text.index("A3") < text.index("A1")
    assert "prediction" in text


def test_banks_prints_nothing_when_the_pictures_cannot_be_drawn(bench):
    fails_in_one_line(bench("banks", "--figures", "/dev/null"), "--figures /dev/null: /dev/null is no folder")


def test_banks_one_row_per_instruction(bench):
    _, text, _ = bench("banks", "--instructions", "--format", "json", "--variants", "A1", "--swizzle", "off")
    loads = [row for row in json.loads(text)["rows"] if row["step"].startswith("load")]
    assert len(loads) == 32
    assert sum(row["wavefronts"] for row in loads) == 128


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["banks", "--variants", "A9"], ["'A9'", ", ".join(VARIANTS)]),
        (["banks", "--variants", ""], ["none given"]),
        (["banks", "--swizzle", "maybe"], ["maybe"]),
        (["banks", "--format", "xml"], ["xml"]),
        (["sass", "--diff", "A1", "A9"], ["'A9'"]),
        (["sass", "--diff", "A1", "A1"], ["twice"]),
        (["sass", "--diff", "A1", "A3", "--variants", "A2"], ["--variants A2", "--diff", "leave one of them out"]),
        (["sass", "--cubin", "none.cubin"], ["none.cubin", "cannot be read"]),
        (["sass", "--cubin", __file__], ["not a cubin"]),
        (["sass", "--cubin", sys.executable], ["not a cubin"]),
        (["sass", "--cubin", "x", "--arch", "80"], ["--cubin and --arch"]),
    ],
)
def test_bad_input_takes_one_line(bench, arguments, parts):
    fails_in_one_line(bench(*arguments), *parts)


def fake_toolkit(*architectures: int) -> toolchain.Toolkit:
    return toolchain.Toolkit(Path("/x/nvcc"), Path("/x"), (12, 4), "test", architectures)


def test_architectures(monkeypatch):
    monkeypatch.setattr(toolchain, "find_toolkit", lambda: fake_toolkit(75, 80, 89, 90))
    assert parse_archs("80,90") == [80, 90]
    assert parse_archs(" sm_90 , 80,90") == [90, 80]
    assert parse_archs("all") == [80, 89, 90]
    assert parse_archs(None) == [80, 89, 90]  # of the usual ones those that this nvcc knows


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("75", ["sm_75", "sm_80 or newer"]),
        ("100", ["sm_100", "nvcc 12.4", "sm_80, sm_89, sm_90"]),
        ("80,999", ["sm_999"]),
        ("9.0", ["'9.0'", "not an architecture"]),
        ("", ["not an architecture"]),
    ],
)
def test_bad_architectures_take_one_line(monkeypatch, bench, text, parts):
    monkeypatch.setattr(toolchain, "find_toolkit", lambda: fake_toolkit(75, 80, 89, 90))
    fails_in_one_line(bench("sass", "--arch", text), *parts)


def test_missing_disassemblers_take_one_line(monkeypatch, bench, tmp_path):
    def absent(name: str) -> Path:
        raise UserError(f"{name}: not found")

    cubin = tmp_path / "a.cubin"
    cubin.write_bytes(b"")
    monkeypatch.setattr("micro.code.counts.read_resources", lambda path: {})
    monkeypatch.setattr("micro.code.sass.disassembler", absent)
    fails_in_one_line(bench("sass", "--cubin", str(cubin)), "no disassembler", "cuobjdump", "nvdisasm")


def test_help_is_instant_and_imports_nothing_heavy():
    code = (
        "import sys, typer; from micro.cli.static import register; register(typer.Typer()); "
        "print([m for m in ('torch', 'matplotlib', 'scipy', 'numpy', 'rich') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.cuda_build
def test_sass_of_one_architecture(bench):
    cubin = compile_cubin(CUDA_DIR / "micro.cu", 80)
    status, text, _ = bench("sass", "--cubin", str(cubin), "--format", "json", "--swizzle", "both")
    rows = json.loads(text)["rows"]
    assert status == 0
    assert len(rows) == 2 * 3 * len(VARIANTS)  # swizzle, work
    assert {row["arch"] for row in rows} == {80}
    _, text, _ = bench("sass", "--cubin", str(cubin), "--format", "csv", "--variants", "A3")
    assert {row["variant"] for row in csv.DictReader(io.StringIO(text))} == {"A3"}
    _, text, _ = bench("sass", "--cubin", str(cubin), "--format", "md")
    assert "| 80 | A1 | on | load_mma | 32 | 16 LDS.16, 16 LDS.32 | 16 | 8 |" in text
    _, text, _ = bench("sass", "--cubin", str(cubin), "--diff", "A1", "A3", "--format", "json")
    changes = {(row["work"], row["quantity"]): row["difference"] for row in json.loads(text)["rows"]}
    assert changes["load_mma", "loads"] == -24
    assert changes["load_mma", "PRMT"] == -8
    assert ("mma_only", "HMMA") not in changes
