"""Verdicts on synthetic records: each rule confirms, refutes and abstains where it should."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gemm.claims import gemm as claims_gemm
from gemm.claims import read_path as claims_read
from gemm.claims.counts import standings
from gemm.claims.finding import Basis, ClaimResult, Verdict
from gemm.claims.text import CLAIMS, RIGHT
from gemm.claims.verdicts import COLUMNS, claim_rows, claims_json
from gemm.explain.effects import effect
from gemm.explain.evidence import Evidence
from micro.model.variants import VARIANTS, BLayout, ReadMode, Variant
from stats.base.errors import UserError
from stats.base.tables import FORMATS, render
from tests.makers import explain_records as made

pytestmark = pytest.mark.usefixtures("few_passes")
NOTHING = Evidence()
MEASURED: Basis = "measured"


def measured(result: ClaimResult) -> Verdict | None:
    return result.verdict_of(MEASURED)


def test_every_claim_has_its_words() -> None:
    assert set(CLAIMS) == set(RIGHT) == set(range(1, 13))


def test_addresses_decide_without_records() -> None:
    verdicts = {
        claims_read.claim_3: Verdict.CONFIRMED,
        claims_read.claim_4: Verdict.REFUTED,
        claims_read.claim_5: Verdict.CONFIRMED,
        claims_read.claim_6: Verdict.REFUTED,
    }
    for claim, expected in verdicts.items():
        result = claim(NOTHING)
        assert result.verdict_of("addresses") is expected
        assert measured(result) is Verdict.NOT_TESTABLE


def loads_in_machine_code(
    monkeypatch: pytest.MonkeyPatch, known: tuple[int, ...], wrong: tuple[str, int] | None = None
) -> ClaimResult:
    """Claim 1 over stand-ins for the kernels; the GEMM of variant and architecture ``wrong`` has a load too many."""

    def program(variant: str, arch: int, extra: int) -> SimpleNamespace:
        loads = 4 * claims_read.EXPECTED_LOADS[variant] + extra
        return SimpleNamespace(name=f"{variant} sm_{arch}", ksteps=4, count=lambda kind: {"load": loads}[kind])

    monkeypatch.setattr("micro.gpu.toolchain.find_toolkit", lambda: SimpleNamespace(architectures=known))
    monkeypatch.setattr(claims_read, "micro_program", lambda variant, work, arch: program(variant, arch, 0))
    monkeypatch.setattr(
        claims_read,
        "gemm_program",
        lambda kernel, arch: program(kernel.variant, arch, int((kernel.variant, arch) == wrong)),
    )
    return claims_read.claim_1(NOTHING)


def test_loads_are_counted_on_every_architecture_that_nvcc_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loads_in_machine_code(monkeypatch, (70, 80, 86, 90))
    assert found.verdict_of("machine code") is Verdict.CONFIRMED
    assert found.findings[0].figure.endswith("on sm_80, sm_86, sm_90")  # 70 is none that the suite is for


def test_one_load_too_many_in_one_kernel_refutes_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loads_in_machine_code(monkeypatch, (80, 90), wrong=("A2L", 90))
    assert found.verdict_of("machine code") is Verdict.REFUTED
    assert found.findings[0].figure == "A2L sm_90: 8.25"
    unseen = loads_in_machine_code(monkeypatch, (80, 86), wrong=("A2L", 86))  # no GEMM is compiled for sm_86
    assert unseen.verdict_of("machine code") is Verdict.CONFIRMED


def test_without_a_compiler_machine_code_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise UserError("no CUDA compiler found; install one")

    monkeypatch.setattr("micro.gpu.toolchain.find_toolkit", none)
    found = claims_read.claim_1(NOTHING)
    assert found.verdict_of("machine code") is Verdict.NOT_TESTABLE
    assert "no CUDA compiler found" in found.findings[0].figure


def test_an_effect_has_its_sign_and_none_is_given_without_an_interval() -> None:
    record = made.gemm(A1=44.0, A3=40.0)
    there, back = effect(record, "A1", "A3"), effect(record, "A3", "A1")
    assert there is not None
    assert back is not None
    assert there[1] < there[0] < there[2]
    assert there[0] == pytest.approx(10, abs=0.05)
    assert (1 + there[0] / 100) * (1 + back[0] / 100) == pytest.approx(1)
    assert effect(record, "A1", "A2") is None  # no such arm
    record.cells = [cell for cell in record.cells if cell.process == 0]
    assert effect(record, "A1", "A3") is None  # one process has no interval


@pytest.mark.parametrize(("cycles", "verdict"), [(24.1, Verdict.CONFIRMED), (28.0, Verdict.REFUTED)])
def test_load_only_confirms_or_refutes_that_there_is_no_conflict(cycles: float, verdict: Verdict) -> None:
    found = made.evidence(micro_record=made.micro(A2_load=cycles, A2L_load=24.0, A3_load=24.0))
    assert measured(claims_read.claim_3(found)) is verdict
    assert measured(claims_read.claim_5(found)) is verdict


@pytest.mark.parametrize(
    ("on", "off", "verdict"),
    [
        (32.1, 96.0, Verdict.REFUTED),  # 1 cycle a read with the swizzle: no conflict
        (48.0, 96.0, Verdict.CONFIRMED),  # what the claim says: 2 ways with it, 4 without
    ],
)
def test_b16_reads_are_judged_by_cycles(on: float, off: float, verdict: Verdict) -> None:
    from micro.model.banks import kstep_wavefronts

    unswizzled = kstep_wavefronts(VARIANTS["A1"], False)
    off = unswizzled.a + 16 * 4.0
    found = made.evidence(micro_record=made.micro(A1_load=on, A1_off=off))
    assert measured(claims_read.claim_4(found)) is verdict


@pytest.mark.parametrize(("a1", "verdict"), [(32.1, Verdict.REFUTED), (48.0, Verdict.CONFIRMED)])
def test_conflicts_are_a_main_cause_only_above_the_conflict_free_wavefronts(a1: float, verdict: Verdict) -> None:
    found = made.evidence(micro_record=made.micro(A1_load=a1, A2_load=24.1))
    assert measured(claims_read.claim_6(found)) is verdict


def test_the_ports_share_here_and_on_a100() -> None:
    result = claims_read.claim_7(made.evidence(micro_record=made.micro(A3_load=24.1, mma=25.6)))
    assert result.verdict_of("prediction") is Verdict.CONFIRMED
    assert measured(result) is Verdict.REFUTED
    a100_like = claims_read.claim_7(made.evidence(micro_record=made.micro(A3_load=24.1, mma=32.1)))
    assert measured(a100_like) is Verdict.CONFIRMED


@pytest.mark.parametrize(("together", "said"), [(29.4, "less"), (32.1, "no less")])
def test_copies_pass_the_loads_port_unless_both_take_less_than_it_would(together: float, said: str) -> None:
    """Loads of 24 port cycles and copies of 8 cannot take less than 32 if they share the port."""
    arms = {claims_read.LOADS_AND_COPIES: {"cycles_per_pass": together}}
    both = made.record("micro-bench contention", arms)
    result = claims_read.claim_7(made.evidence(micro_record=made.micro(A3_load=24.1, mma=24.0), contention=both))
    finding = result.findings[-1]
    assert finding.figure.endswith(f"together, {said} than if what cp.async brings passed it as loads do")
    assert "; loads of 24 cycles of that port and copies of 8 take" in finding.figure
    assert "micro-bench contention" in finding.command
    assert measured(result) is Verdict.REFUTED  # the share is of reads, whatever the copies do
    without = claims_read.claim_7(made.evidence(micro_record=made.micro(A3_load=24.1, mma=24.0)))
    assert "no contention record says" in without.findings[-1].figure
    assert "not known there" in without.findings[0].figure  # A100, for which no record speaks


@pytest.mark.cuda_build
@pytest.mark.parametrize(
    ("a1", "verdict"),
    [(41.2, Verdict.CONFIRMED), (40.0, Verdict.CONFIRMED), (50.0, Verdict.REFUTED), (42.0, Verdict.NOT_TESTABLE)],
)
def test_effect_on_the_gemm(a1: float, verdict: Verdict) -> None:
    """3 % and 0 % are as claimed, 25 % is not, and 5 % with an interval on both sides decides nothing."""
    found = made.evidence(gemms=(made.gemm(A1=a1, A2=40.1, A2L=40.0, A3=40.0),))
    if verdict is Verdict.NOT_TESTABLE:
        rows = found.gemm[0].cells
        for index, cell in enumerate(rows):
            if cell.arm == "A1":
                rows[index] = type(cell)(
                    **{**vars(cell), "sm_cycles": cell.sm_cycles * (1 + (cell.process - 3.5) / 300)}
                )
    assert measured(claims_gemm.claim_8(found)) is verdict


@pytest.mark.parametrize(("staged", "verdict"), [(40.1, "confirmed"), (39.0, "refuted"), (44.0, "confirmed")])
def test_epilogue(staged: float, verdict: str) -> None:
    """The simple epilogue may cost 1 %; a staged one that is slower does not speak against it."""
    arms = {"A1": 40.0, "A2": 40.0, "A2L": 40.0, "A3": 40.0}
    both = arms | {f"{name}__staged": staged for name in arms}
    result = claims_gemm.claim_9(made.evidence(gemms=(made.gemm(**both),)))
    assert measured(result) is Verdict(verdict)


def test_a_variant_that_no_claim_speaks_of_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of the four that the claims name stays one that decides them when a fifth joins the ladder."""
    arms = dict.fromkeys(claims_read.CLAIMED, 40.0)
    found = made.evidence(gemms=(made.gemm(**arms, **{f"{name}__staged": 40.1 for name in arms}),))
    monkeypatch.setitem(VARIANTS, "A9", Variant("A9", ReadMode.LDMATRIX, BLayout.TRANSPOSED))
    for result in (claims_read.claim_2(found), claims_gemm.claim_9(found)):
        assert measured(result) is Verdict.CONFIRMED
        assert "A9" not in " ".join(finding.figure for finding in result.findings)


@pytest.mark.cuda_build
@pytest.mark.parametrize(("wait_all", "verdict"), [(45.0, Verdict.REFUTED), (59.8, Verdict.CONFIRMED)])
def test_wait_for_all(wait_all: float, verdict: Verdict) -> None:
    found = made.gemm(A3__wait_all=wait_all, A3=40.0, A3__stages_2=45.0, A3__stages_1=60.0)
    assert measured(claims_gemm.claim_10(made.evidence(gemms=(found,)))) is verdict


@pytest.mark.cuda_build
def test_every_variant_that_waits_for_all_is_shown_and_judged() -> None:
    """One variant far from a single buffer refutes, though another is one; each figure names both of its arms."""
    three = {"A3__wait_all": 59.8, "A3": 40.0, "A3__stages_2": 45.0, "A3__stages_1": 60.0}
    one = {"A1__wait_all": 51.5, "A1": 50.0, "A1__stages_2": 51.4, "A1__stages_1": 60.0}
    result = claims_gemm.claim_10(made.evidence(gemms=(made.gemm(**three, **one),)))
    assert measured(result) is Verdict.REFUTED
    figure = result.findings[0].figure
    assert "A1/wait_all against A1 +3.0" in figure
    assert "A3/wait_all against A3 +49.5" in figure
    assert "A3/stages=1 -0.3" in figure
    prediction = result.findings[-1].figure
    assert "A1 wait_all" in prediction
    assert "A3 wait_all" in prediction


@pytest.mark.parametrize(
    ("without", "with_it", "verdict"),
    [(False, True, Verdict.CONFIRMED), (True, True, Verdict.REFUTED), (False, False, Verdict.REFUTED)],
)
def test_opt_in(without: bool, with_it: bool, verdict: Verdict) -> None:
    facts = {"launch_65536_bytes_without_opt_in": without, "launch_65536_bytes_with_opt_in": with_it}
    assert measured(claims_gemm.claim_11(made.evidence(stream=made.stream(**facts)))) is verdict


def counters(exists: bool, off: int) -> dict[str, object]:
    """A counter run of two launches; the second counts ``off`` more than it had to show."""
    launches = [
        {
            "arm": arm,
            "template": [],
            "blocks": 1,
            "arguments": {},
            "kernel": "k",
            "warp_ksteps": 1,
            "predicted": {"loop": {"loads": 10}},
            "counted": {"loads": count},
        }
        for arm, count in (("A1", 10), ("A2", 10 + off))
    ]
    return {
        "kind": "counters",
        "tool": "micro-bench",
        "created_utc": "2026-01-01T00:00:00Z",
        "device": made.GPU.model_dump(),
        "software": {},
        "git_commit": "",
        "git_dirty": False,
        "source_hash": "cafe",
        "config": {},
        "command": [],
        "seconds": 1.0,
        "drafts": [{"name": "some_counter", "exists": exists, "matches": [], "measured_by": []}],
        "metrics": [{"key": "loads", "group": "instructions", "unit": "inst", "predicted": "loads", "name": "loads"}],
        "launches": launches,
        "summary": [],
    }


@pytest.mark.parametrize(("exists", "verdict"), [(True, Verdict.CONFIRMED), (False, Verdict.REFUTED)])
def test_counters(exists: bool, verdict: Verdict) -> None:
    result = claims_gemm.claim_12(Evidence(counters=[(Path("counters.json"), counters(exists, off=0))]))
    assert measured(result) is verdict
    assert "2 equal, 0 explained, 0 open" in result.findings[0].figure
    assert measured(claims_gemm.claim_12(NOTHING)) is Verdict.NOT_TESTABLE


def test_an_open_difference_confirms_nothing_and_is_named() -> None:
    result = claims_gemm.claim_12(Evidence(counters=[(Path("counters.json"), counters(True, off=2))]))
    assert measured(result) is Verdict.NOT_TESTABLE
    assert "1 equal, 0 explained, 1 open (loads)" in result.findings[0].figure
    older = claims_gemm.claim_12(Evidence(counters=[(Path("counters.json"), {"drafts": counters(True, 0)["drafts"]})]))
    assert "not classified" in older.findings[0].figure
    assert measured(older) is Verdict.NOT_TESTABLE


def test_counts_of_the_quoted_runs_are_those_of_their_own_tables() -> None:
    paths = sorted((Path(__file__).resolve().parents[3] / "results").glob("counters-*.json"))
    if not paths:
        pytest.skip("results/ holds no counters")
    for path in paths:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = standings(data)
        assert found is not None
        for key in ("equal", "explained", "open"):
            assert getattr(found, key) == sum(row[key] for row in data["summary"]), path.name


@pytest.mark.parametrize(("conflicts", "verdict"), [(0, Verdict.REFUTED), (1600, Verdict.CONFIRMED)])
def test_counted_conflicts_speak_on_claim_6(conflicts: float, verdict: Verdict) -> None:
    launches = [
        {"arm": arm, "warp_ksteps": 100, "counted": {"load_conflicts": count}, "predicted": {}}
        for arm, count in (("A1:load", conflicts), ("A1/noswz:load", 9600))
    ]
    data = {"kind": "counters", "device": {"name": "Test GPU"}, "launches": launches}
    found = claims_read.claim_6(Evidence(counters=[(Path("counters.json"), data)]))
    assert measured(found) is verdict
    assert "96.00 without" in found.findings[-1].figure


def test_data_and_tables_come_from_the_same_results() -> None:
    found = made.evidence(micro_record=made.micro(A3_load=24.1, mma=25.6))
    results = [claims_read.claim_4(found), claims_read.claim_7(found)]
    data = json.loads(claims_json(results, found))
    assert data["device"] == "Test GPU"
    assert [claim["verdict"] for claim in data["claims"]] == ["refuted", "refuted"]
    assert data["claims"][1]["a100"] == "confirmed (prediction)"
    assert data["claims"][0]["a100"] == "refuted"  # from addresses, which are no prediction
    assert data["records"][0]["source_hash"] == "cafe"
    for fmt in FORMATS:
        assert "refuted" in render(COLUMNS, claim_rows(results), fmt)


def test_the_command_needs_records_that_exist() -> None:
    from gemm.cli.app import app

    runner = CliRunner()
    result = runner.invoke(app, ["explain", "--record", "nowhere.jsonl"])
    assert "no such file" in str(result.exception)
    result = runner.invoke(app, ["explain", "--arch", "75"])
    assert "choose from sm_80, sm_90" in str(result.exception)
