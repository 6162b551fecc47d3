"""``micro-bench`` as a person meets it without a GPU: a prediction that says so, and one line for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from micro.bench.read_path.config import MicroConfig
from micro.model.variants import VARIANTS
from stats.base.config import load_config
from tests.commands import Command
from tests.ladder import TOTAL, WAVEFRONTS

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("no_gpu")


def test_without_a_gpu_it_predicts_and_says_so(run_command: Command) -> None:
    status, out, err = run_command("micro-bench", "--do-mma", "both")
    assert status == 0, err
    assert out.startswith("PREDICTED, NOT MEASURED")


def test_the_prediction_as_json_holds_the_models_figures(run_command: Command) -> None:
    found = json.loads(run_command("micro-bench", "--format", "json", "--swizzle", "on")[1])
    assert found["measured"] is False
    assert [(row["variant"], row["predicted"], row["instructions"]) for row in found["rows"]] == [
        (name, WAVEFRONTS[name], TOTAL[name]) for name in VARIANTS
    ]


@pytest.mark.parametrize("name", ["micro", "micro-record"])
def test_the_main_configs_hold_the_whole_ladder(name: str) -> None:
    assert load_config(name, MicroConfig).variants == list(VARIANTS)


def test_predicting_imports_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys; from micro.cli.app import main\n"
        "sys.argv = ['micro-bench', '--do-mma', 'both']\n"
        "try:\n    main()\n"
        "except SystemExit as stop:\n"
        "    loaded = {'torch', 'matplotlib'} & set(sys.modules)\n"
        "    sys.exit(f'loaded {loaded}' if loaded or stop.code else 0)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


CONFIG = "variants: [A1]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--do-mma", "2"], "--do-mma '2': choose from 0, 1, both"),
        (["--variants", "A9"], "variant 'A9': unknown; choose from " + ", ".join(VARIANTS)),
        (["--variants", "A1,A1"], "a name is given twice"),
        (["--variants", ","], "none given"),
        (["--blocks-per-sm", "3"], "--blocks-per-sm 3"),
        (["--launches", "0"], "--launches 0"),
        (["--launches", "many"], "--launches"),
        (["--swizzle", "maybe"], "choose from on, off, both"),
        (["--format", "xml"], "choose from table, md, csv, json"),
        (["--config", "no-such-name"], "there are: "),
        (["--config", "absent.yaml"], "absent.yaml: config cannot be read"),
        (["--config", "/dev/null"], "/dev/null: empty; a config is made of"),
        (["--config", "/dev/zero"], "/dev/zero: a config has at most"),
        (["--processes", "9" * 23], f"--processes {'9' * 23}: choose from 1 to 1000"),
        (["--device", "-1"], "Invalid value for '--device': "),
        (["--resume"], "--resume: there is no record to continue; name it with --out"),
        (["--out", "x.jsonl"], "no CUDA device"),
        (["--bogus"], "--bogus"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    run_command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run_command("micro-bench", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.startswith("micro-bench: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variants: [A1]\nblock_per_sm: 2\n", r"2: block_per_sm"),
        ("variants: [A1, B7]\n", r"1: variants"),
        ("blocks: many\n", r"1: blocks"),
        ("launches: 1\nlaunches: 2\n", r"2: "),
        ("variants: [A1\n", r"bad.yaml:"),
    ],
)
def test_a_bad_config_names_file_line_and_key(
    run_command: Command, monkeypatch: pytest.MonkeyPatch, text: str, message: str, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(text)
    status, _, err = run_command("micro-bench", "--config", "bad.yaml")
    assert status == 2
    assert err.startswith("micro-bench: bad.yaml:")
    assert message in err
    assert err.count("\n") == 1
