"""``micro-bench`` as a person meets it without a GPU: a prediction that says so, and one line for bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ladder import TOTAL, WAVEFRONTS

from micro.config import MicroConfig
from micro.variants import VARIANTS
from stats.config import load_config

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "micro", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **environment},
        check=False,
    )


def test_without_a_gpu_it_predicts_and_says_so() -> None:
    answer = run("--do-mma", "both")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("PREDICTED, NOT MEASURED")


def test_the_prediction_as_json_holds_the_models_figures(tmp_path: Path) -> None:
    answer = run("--format", "json", "--swizzle", "on", cwd=tmp_path)
    found = json.loads(answer.stdout)
    assert found["measured"] is False
    assert [(row["variant"], row["predicted"], row["instructions"]) for row in found["rows"]] == [
        (name, WAVEFRONTS[name], TOTAL[name]) for name in VARIANTS
    ]


@pytest.mark.parametrize("name", ["micro", "micro-record"])
def test_the_main_configs_hold_the_whole_ladder(name: str) -> None:
    assert load_config(name, MicroConfig).variants == list(VARIANTS)


def test_predicting_imports_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys; from micro.cli import main\n"
        "sys.argv = ['micro-bench', '--do-mma', 'both']\n"
        "try:\n    main()\n"
        "except SystemExit as stop:\n"
        "    loaded = {'torch', 'matplotlib'} & set(sys.modules)\n"
        "    sys.exit(f'loaded {loaded}' if loaded or stop.code else 0)\n"
    )
    import os

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
def test_bad_input_is_one_line_and_status_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    answer = run(*arguments, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert answer.stderr.startswith("micro-bench: ")
    assert answer.stderr.count("\n") == 1
    assert answer.stdout == ""
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
def test_a_bad_config_names_file_line_and_key(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    answer = run("--config", "bad.yaml", cwd=tmp_path)
    assert answer.returncode == 2
    assert answer.stderr.startswith("micro-bench: bad.yaml:")
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1
