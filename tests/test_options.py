"""Options that all commands share a rule for: outputs, devices, versions, and what says that it changed nothing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from stats.record.provenance import PACKAGE_ROOT, suite_version
from tests.commands import COMMANDS, PROGRAMS, Command
from tests.makers.report_records import gemm_record, written

READ = {"--record", "--from", "--cubin"}  # options with the name of something that is there; every other makes it
# Options of paths, from all commands: (command, option, whether it names a folder).
OUTPUTS = [
    (name, param.opts[0], "FILE" not in (param.metavar or "") and "html" not in (param.metavar or ""))
    for name, command in COMMANDS.items()
    for param in command.params
    if param.opts[0].startswith("--") and param.opts[0] not in READ
    if "Path" in str(inspect.signature(command.callback).parameters[param.name].annotation)
]


@pytest.fixture
def shell(run_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 0)
    return run_command


def test_the_outputs_are_found() -> None:
    assert {option for _, option, _ in OUTPUTS} == {"--out", "--figure", "--figures", "--keep", "--html"}
    assert [(name, option) for name, option, folder in OUTPUTS if folder] == [
        ("micro-bench banks", "--figures"),
        ("micro-bench counters", "--keep"),
        ("gemm-bench counters", "--keep"),
        ("bench-stats plot", "--out"),
    ]


@pytest.mark.parametrize(("command", "option", "folder"), OUTPUTS, ids=[" ".join(one[:2]) for one in OUTPUTS])
def test_a_place_that_cannot_be_is_refused_before_any_work(
    command: str, option: str, folder: bool, shell: Command, tmp_path: Path
) -> None:
    """A file wants its folder to be there; a folder that is to be filled is made, unless a file is in its way."""
    (tmp_path / "file").touch()
    (tmp_path / "here").mkdir()
    bad = {"file/x.png": "is no folder; choose", "file": "is no folder; choose"}
    if not folder:
        bad = {
            "absent/x.png": "there is no folder absent; make it first",
            "here": f"{option} here: is a folder; give the name of a file",
            "": f"{option} '.': an empty name, or the folder here; give the name of a file",
        }
    before = sorted(tmp_path.rglob("*"))
    for name, why in bad.items():
        code, out, err = shell(command, *["absent.jsonl"][: command.startswith("bench-stats")], option, name)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert why in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_to_fill_is_made(shell: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stats.report.figures.draw.image", lambda *_: b"drawn")
    record = written(gemm_record(processes=2, blocks=2), Path("r.jsonl"))
    assert shell("bench-stats plot", record, "--figure", "run", "--out", "new/one", "--format", "svg")[0] == 0
    assert [path.read_bytes() for path in Path("new/one").iterdir()] == [b"drawn"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_version_is_that_of_the_project(program: str, shell: Command) -> None:
    stated = re.search(r'^version = "(.+)"$', (PACKAGE_ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert stated is not None
    assert shell(program, "--version") == (0, f"{program} {stated[1]}\n", "")


def test_the_version_without_a_checkout_is_what_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("stats.record.provenance.PACKAGE_ROOT", tmp_path)
    monkeypatch.setattr("stats.record.provenance.metadata.version", {"smem-bench": "9.8.7"}.__getitem__)
    assert suite_version() == "9.8.7"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "1"\n', encoding="utf-8")
    assert suite_version() == "9.8.7"


DEVICE = [name for name, one in COMMANDS.items() if "device" in {param.name for param in one.params}]


@pytest.mark.parametrize("command", DEVICE)
def test_no_device_is_accepted_where_there_is_none(command: str, shell: Command) -> None:
    options = ["--device", "99"]
    if command.endswith("counters"):  # --by-hand writes a line for another machine; without ncu nothing is counted
        options += ["--ncu", "absent"]
    code, out, err = shell(command, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search("no CUDA device|--ncu absent: no such program", err)


NO_EFFECT = {
    "micro-bench": {"--do-mma": "0", "--launches": "3", "--processes": "4", "--clocks": "lock"},
    "micro-bench contention": {"--config": "contention"},
}
OBEYED = {
    "micro-bench": {
        "--variants": "A3",
        "--swizzle": "on",
        "--blocks-per-sm": "1",
        "--config": "micro",
        "--do-mma": "both",
    },
    "micro-bench instructions": {"--config": "instructions"},
}


@pytest.mark.parametrize("command", ["micro-bench", "micro-bench instructions", "micro-bench contention"])
def test_a_prediction_names_the_options_that_it_does_not_obey(
    command: str, shell: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("micro.cli.app._measured", lambda *_: "a recorded run\n")
    whole = shell(command)
    assert (whole[0], whole[2]) == (0, "")
    for option, value in NO_EFFECT.get(command, {}).items():
        told = f"{command}: {option}: no effect, since without a CUDA device nothing is measured\n"
        assert shell(command, option, value) == (0, whole[1], told)
    assert shell(command, *(part for pair in OBEYED.get(command, {}).items() for part in pair))[::2] == (0, "")
    if command == "micro-bench":  # the residency chooses the recorded run beneath, and data have none
        assert "--blocks-per-sm: no effect" in shell(command, "--blocks-per-sm", "1", "--format", "csv")[2]


def test_every_option_of_a_command_with_a_prediction_is_obeyed_named_or_refused() -> None:
    for command in ("micro-bench", "micro-bench instructions", "micro-bench contention"):
        options = {param.opts[0] for param in COMMANDS[command].params} - {"--format", "--version", "--record"}
        options -= {"--device", "--out", "--resume", "--figure"}  # refused
        assert options == {*NO_EFFECT.get(command, {}), *OBEYED.get(command, {})}, command


def test_gemm_bench_names_them_too(shell: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemm.cli.app._compiled", lambda *_: "compiled\n")
    values = {"--shape": "4096x4096x4096", "--processes": "4", "--blocks": "4", "--launches": "2", "--l2": "hot"}
    values |= {"--seed": "3", "--clocks": "monitor"}
    for option, value in values.items():
        told = f"gemm-bench: {option}: no effect, since without a CUDA device nothing is measured\n"
        assert shell("gemm-bench", option, value) == (0, "compiled\n", told)
    obeyed = ["--variants", "A3", "--dtype", "bf16", "--stages", "3", "--swizzle", "on", "--load-mode", "cp_async"]
    assert shell("gemm-bench", *obeyed, "--config", "ladder-a") == (0, "compiled\n", "")
    options = {param.opts[0] for param in COMMANDS["gemm-bench"].params}
    assert options == {*values, *obeyed[::2], "--config", "--format", "--version", "--device", "--out", "--resume"}


def test_what_changes_nothing_beside_another_option_is_refused(shell: Command) -> None:
    records = [written(gemm_record(processes=3, blocks=2, seed=seed), Path(f"r{seed}.jsonl")) for seed in (1, 2)]
    copy = Path("copy.jsonl")
    copy.write_bytes(records[0].read_bytes())
    twice = "r1.jsonl and copy.jsonl: are the same run; give each run once"
    for line, why in {
        ("bench-stats compare", *records[:1], "--same-source"): "--same-source: compares the sources of two records",
        ("bench-stats compare", records[0], copy): twice,
        ("bench-stats repeats", *records, copy, "--a", "A1", "--b", "A3"): twice,
        ("gemm-bench aa", "--record", records[0], "--record", copy): twice,
        ("gemm-bench inject", "--record", records[0], "--record", copy): twice,
        ("bench-stats plan", records[0], "--half-width", "1", "--power", "0.9"): "--power: --half-width asks for no",
        ("bench-stats table", records[0], "--list", "--format", "csv"): "--format: --list names the tables alone",
        ("bench-stats table", records[0], "--list", "--query", "aa"): "--query: --list names the tables alone",
        ("micro-bench counters", "--by-hand", "--out", "x.json"): "--out: --by-hand only prints a line",
        ("gemm-bench counters", "--by-hand", "--format", "json"): "--format: --by-hand only prints a line",
    }.items():
        code, out, err = shell(line[0], *line[1:])
        assert (code, out, err.count("\n")) == (2, "", 1), line
        assert why in err
    assert shell("bench-stats plan", records[0], "--half-width", "1", "--alpha", "0.1", "--format", "csv")[0] == 0
    assert shell("gemm-bench counters", "--by-hand", "--variants", "A3", "--device", "1")[0] == 0


# A value is quoted once, as it was typed, and never as Python writes a list.
ONCE = {
    ("gemm-bench", "--shape", "4096"): "--shape '4096': write it as MxNxK, for example 4096x4096x4096",
    ("gemm-bench", "--shape", "256x256x32,4096"): "--shape '4096': write it as MxNxK, for example 4096x4096x4096",
    ("gemm-bench", "--shape", "100x128x32"): "--shape 100x128x32: m = 100 is not a multiple of 128; nearest: 128",
    ("gemm-bench", "--shape", "128x128x32,128x128x32"): "--shape 128x128x32,128x128x32: a value is given twice",
    ("gemm-bench", "--blocks", "7"): "--blocks 7: is odd; every order needs its reverse, so choose an even number",
    ("gemm-bench", "--l2", "warm"): "--l2 'warm': choose from 'hot' or 'flushed'",
    ("micro-bench", "--blocks-per-sm", "3"): "--blocks-per-sm 3: choose from 1 or 2",
}


@pytest.mark.parametrize("line", ONCE, ids=" ".join)
def test_a_message_names_option_and_value_once(line: tuple[str, ...], shell: Command) -> None:
    assert shell(*line) == (2, "", f"{line[0]}: {ONCE[line]}\n")
