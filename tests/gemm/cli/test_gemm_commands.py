"""``gemm-bench`` in its own process: what it says of recorded runs, and of runs on the GPU made of NumPy.

The records are those that the README quotes; a command that cannot read them is seen here first.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gemm.truth.campaigns import Campaign
from stats.record.reader import read_record
from tests.commands import Command
from tests.gemm.cli.test_gpu_runs import on_stand_in, stand_in_for
from tests.ladder import TOTAL

RESULTS = Path(__file__).resolve().parents[3] / "results"
needs_records = pytest.mark.skipif(not list(RESULTS.glob("ladder-a-*.jsonl")), reason="no recorded runs here")


@pytest.fixture
def command(run_command: Command) -> Command:
    return partial(run_command, "gemm-bench")


@needs_records
def test_a_campaign_refuses_records_of_the_other(command: Command) -> None:
    for name, file, told in (("aa", "inject-*.jsonl", "injected effects"), ("inject", "aa-*.jsonl", "A/A")):
        code, out, err = command(name, "--record", next(RESULTS.glob(file)))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f": a record of {told}, not of " in err


@needs_records
def test_counters_of_the_other_tool_are_refused_and_not_called_stale(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from micro.cli import app as cli

    of_micro, of_gemm = (next(RESULTS.glob(f"counters-{tool}-*.json")) for tool in ("micro", "gemm"))
    code, out, err = command("counters", "--from", of_micro)
    assert (code, out) == (2, "")
    assert err == (
        f"gemm-bench: {of_micro}: a record of micro-bench counters; use micro-bench counters --from {of_micro}\n"
    )
    assert command("counters", "--from", of_gemm)[0] == 0
    monkeypatch.setattr("sys.argv", ["micro-bench", "counters", "--from", str(of_gemm)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, capsys.readouterr().out) == (2, "")


@needs_records
def test_claims_never_replace_a_record_that_they_read(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gemm.claims.verdicts.judge", lambda _: [])
    record = tmp_path / "mine.jsonl"
    record.write_bytes(next(RESULTS.glob("ladder-a-*.jsonl")).read_bytes())
    link = tmp_path / "claims.json"
    link.symlink_to(record)
    before = record.read_bytes()
    for records, out in ((record, record), (tmp_path, record), (record, link), (tmp_path, link)):
        code, told, err = command("explain", "claims", "--record", records, "--out", out)
        assert (code, told) == (2, "")
        assert err == f"gemm-bench: --out {out}: is one of the records; choose another file\n"
    assert record.read_bytes() == before
    link.unlink()
    assert command("explain", "claims", "--record", tmp_path, "--out", link)[0] == 0
    assert json.loads(link.read_text())["claims"] == []


@needs_records
def test_explain_shows_each_section_in_every_form(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from stats.base.tables import Column

    # The sections have tests of their own and take their time; here it is how they are shown.
    sections = {"ceilings": ([Column("arm", "arm"), Column("cycles", "cycles")], [{"arm": "A3", "cycles": 32.5}])}
    monkeypatch.setattr("gemm.simulator.kernels.without_machine_code", lambda: None)
    monkeypatch.setattr("gemm.cli.explain._sections", lambda *_: sections | {"nothing": ([], [])})
    ladder = ("--record", next(RESULTS.glob("ladder-a-*.jsonl")))
    code, out, err = command("explain", *ladder)
    assert (code, err) == (0, "")
    assert out.startswith("sm_90: measured on NVIDIA H200")
    assert "ceilings" in out
    assert "nothing" not in out.splitlines()
    code, out, _ = command("explain", *ladder, "--format", "json")
    assert json.loads(out)["sm_90"]["ceilings"] == [{"arm": "A3", "cycles": 32.5}]
    code, out, _ = command("explain", *ladder, "--arch", "80", "--format", "md")
    assert out.startswith("sm_80: PREDICTED, NOT MEASURED")
    assert "### ceilings" in out
    assert command("explain", *ladder, "--format", "csv")[1].splitlines() == ["arm,cycles", "A3,32.5", ""]


@needs_records
def test_explain_refuses_what_is_not_there(command: Command, tmp_path: Path) -> None:
    code, _, err = command("explain", "--arch", "100")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("gemm-bench: --arch: sm_100: no figures of it are on file for the simulator (cycles between ")
    assert err.endswith("; choose from sm_80, sm_90\n")
    assert "--arch 'Ada': not an architecture; write 80 or 80,90" in command("explain", "--arch", "80,Ada")[2]
    assert command("explain", "--format", "xml")[0] == 2
    code, out, err = command("explain", "--record", tmp_path / "absent")
    assert (code, out) == (2, "")
    assert "no such file or folder" in err
    (tmp_path / "empty").mkdir()
    for form in (("explain",), ("explain", "claims"), ("explain", "fit")):
        code, out, err = command(*form, "--record", tmp_path / "empty")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"--record {tmp_path / 'empty'}: holds nothing to explain" in err


@needs_records
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def work(_: object) -> list[object]:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("gemm.claims.verdicts.judge", work)
    folder = tmp_path / "no"
    code, out, err = command("explain", "claims", "--out", folder / "x.json")
    assert (code, out) == (2, "")
    assert err == f"gemm-bench: --out {folder / 'x.json'}: there is no folder {folder}; make it first\n"


@needs_records
@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("tools", "--record", RESULTS / "tools-h200.json", "--seed", "3"), "--seed"),
        (("aa", "--record", RESULTS / "aa-h200-0.jsonl", "--pairs", "3"), "--pairs"),
        (("inject", "--record", RESULTS / "inject-h200.jsonl", "--device", "1"), "--device"),
        (("counters", "--from", RESULTS / "counters-gemm-h200.json", "--config", "counters"), "--config"),
        (("--config", "ladder-a", "check"), "--config"),
        (("explain", "--record", RESULTS, "claims"), "--record"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    arguments: tuple[object, ...], option: str, command: Command
) -> None:
    code, out, err = command(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"gemm-bench: {option}: ")


@needs_records
def test_verdicts_that_cannot_be_written_are_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gemm.claims.verdicts.judge", lambda _: [])
    ladder = ("--record", next(RESULTS.glob("ladder-a-*.jsonl")))
    code, out, err = command("explain", "claims", *ladder, "--out", tmp_path / "no" / "folder.json")
    assert (code, out) == (2, "")
    assert err.endswith(f"folder.json: there is no folder {tmp_path / 'no'}; make it first\n")
    code, out, err = command("explain", "claims", *ladder, "--format", "json", "--out", tmp_path / "verdicts.json")
    assert (code, err) == (0, "")
    assert json.loads((tmp_path / "verdicts.json").read_text()) == json.loads(out)


@needs_records
@pytest.mark.parametrize(("campaign", "pattern"), [("aa", "aa-h200-*.jsonl"), ("inject", "inject-h200*.jsonl")])
def test_recorded_campaigns_are_judged_again(campaign: str, pattern: str, command: Command) -> None:
    records = sorted(RESULTS.glob(pattern))
    code, out, err = command(campaign, *(part for path in records for part in ("--record", path)), "--format", "json")
    rows = json.loads(out)["rows"]
    outside = [row for row in rows if row["inside"] != "yes"]
    assert code == (1 if outside else 0)
    assert err.count("\n") == (1 if outside else 0)


def small_campaign(campaign: Campaign, device_index: int) -> Any:
    """The arms of a campaign on the stand-in GPU, on a shape that suits it."""
    return on_stand_in("gemm.truth.campaigns", "campaign_arms", replace(campaign, shape=(128, 128, 32)), device_index)


@pytest.mark.torch
def test_campaigns_run_and_are_recorded(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("gemm.truth.campaigns.campaign_arms", small_campaign)
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 1)
    out = tmp_path / "aa.jsonl"
    options = ("--pairs", 2, "--processes", 1, "--blocks", 2)
    code, text, err = command("aa", *options, "--runs", 2, "--out", out)
    # The stand-in's time has no scatter, so nothing can be judged: the command says so, and the records are there.
    assert (code, text) == (2, ""), err
    assert err.endswith(
        "000+0%: arm 000+0% reads exactly the same time in all 2 cells: the clock does not resolve it\n"
    )
    record = read_record(tmp_path / "aa-0.jsonl")
    assert record.header.config["campaign"] == "aa"
    assert len(record.cells) == 2 * 2 * 2
    assert (tmp_path / "aa-1.jsonl").exists()
    for bad, says in ((("--runs", 0), "--runs: 0 is below 1"), (("--clocks", "x"), "--clocks 'x': choose from")):
        code, _, err = command("aa", *bad)
        assert code == 2
        assert says in err


@pytest.mark.torch
def test_stream_runs_and_is_shown(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in_for(monkeypatch, "gemm.explain.stream", "stream_arms")
    monkeypatch.setattr("micro.gpu.device.cuda_device_count", lambda: 1)
    config = tmp_path / "stream.yaml"
    config.write_text("shape: 256x256x64\nblocks: 2\nwarmup_blocks: 0\nlaunches: 1\n")
    out = tmp_path / "stream.jsonl"
    code, text, err = command(
        "explain", "stream", "--config", config, "--processes", 1, "--out", out, "--format", "json"
    )
    assert code == 0, err
    rows = json.loads(text)["rows"]
    assert {row["arm"] for row in rows} >= {"tiles_natural", "barrier"}
    assert read_record(out).header.workload["kernel"] == "stream"


@pytest.mark.cuda_build
def test_sass_counts_the_loads_of_a_config(command: Command) -> None:
    code, out, err = command("sass", "--arch", "90", "--swizzle", "on", "--format", "json")
    assert (code, err) == (0, "")
    loads = {row["variant"]: row["loads"] for row in json.loads(out)["rows"]}
    assert loads == TOTAL
