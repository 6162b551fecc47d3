"""The choice of the simulator's free parameters, and ratios of predictions, on records of a made-up GPU."""

from __future__ import annotations

from typing import Any

import pytest

from gemm.explain import fit
from gemm.explain.evidence import Evidence
from gemm.explain.fit import contention_rows, fit_rows
from gemm.explain.predict import _ratio_row
from gemm.simulator.machine import Machine, machine
from gemm.simulator.program import Op, Program
from micro.bench.contention.design import Arm, arm_called
from stats.analysis.levels import Level
from stats.base.errors import UserError
from tests.makers import explain_records as made
from tests.makers.contention_record import make_record

NAMES = ("mma", "ld.shared.b32/n8+mma", "st.shared.b32/n4+mma")
READS = {"A1": 30.0, "A3": 24.0}


def trip(arm: Arm, arch: int) -> Program:
    """What contention.cu would become if ptxas spread an arm's instructions evenly: no compiler is needed."""
    op = Op("store" if arm.kind.machine == "STS" else "load", wavefronts=1)
    every = 16 // arm.instructions if arm.instructions else 17
    each_pass = [part for i in range(1, 17) for part in ([Op("mma")] if i % every else [Op("mma"), op])]
    return Program(arm.name, arch, tuple(4 * each_pass), 4)


def evidence(**more: Any) -> Evidence:
    return made.evidence(contention=make_record(), stream=made.stream(reads=READS), **more)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three arms, trips without a compiler, and reads that follow ``line_cycles``: 24 cycles where it is as chosen."""

    def reads(variant: str, on: Machine) -> float:
        return 24.0 * on.line_cycles / machine(90).line_cycles

    monkeypatch.setattr(fit, "ARMS", tuple(arm_called(name) for name in NAMES))
    monkeypatch.setattr(fit, "contention_program", trip)
    monkeypatch.setattr(fit, "predict_reads", reads)


@pytest.mark.usefixtures("quick")
def test_the_simulator_makes_of_arms_what_the_record_says() -> None:
    """24 cycles for the mma, a quarter of a cycle a load, three of them a store."""
    rows = {row["arm"]: row for row in contention_rows(evidence(), machine(90))}
    assert tuple(rows) == NAMES
    assert [rows[name]["measured"] for name in NAMES] == pytest.approx([24.25, 26.25, 27.15], abs=0.01)
    assert [rows[name]["predicted"] for name in NAMES] == pytest.approx([24.04, 26.04, 27.04], rel=0.01)


@pytest.mark.usefixtures("quick")
def test_each_parameter_is_varied_around_the_chosen_one_and_judged_by_both_records() -> None:
    rows = fit_rows(evidence(), 90)
    found = {(row["parameter"], row["value"]): row for row in rows}
    assert len(found) == 18
    chosen = [row["parameter"] for row in rows if row["chosen"]]
    assert chosen == list(dict.fromkeys(row["parameter"] for row in rows))  # one of each
    assert {"operand_reads.copy", "port_cycles_per_line", "queue_depth"} < set(chosen)
    assert all(row["contention_rms"] <= abs(row["contention_worst"]) for row in rows)
    assert {row["worst_arm"] for row in rows} <= set(NAMES)
    # A1 is 20 % below its record and A3 as measured, so the root of the mean square is 20 over the root of 2.
    as_chosen = found["line_cycles", 1.0]
    assert as_chosen["reads_worst"] == pytest.approx(-20, abs=0.1)
    assert as_chosen["reads_rms"] == pytest.approx(20 / 2**0.5, abs=0.1)
    assert found["line_cycles", 0.85]["reads_rms"] > as_chosen["reads_rms"]
    assert found["copy_depth", 3]["reads_rms"] == as_chosen["reads_rms"]
    assert found["mma_operand_cycles", 4]["reads_rms"] is None  # nothing multiplies there


@pytest.mark.usefixtures("quick")
def test_fit_needs_both_records_of_the_architecture() -> None:
    lacking = (made.evidence(contention=make_record(), stream=made.stream()), made.evidence(stream=made.stream()))
    for found in (*lacking, made.evidence(stream=made.stream(reads=READS))):
        with pytest.raises(UserError, match="a contention record and a stream record with reads_"):
            fit_rows(found, 90)
    with pytest.raises(UserError, match="of sm_80; record them"):
        fit_rows(evidence(), 80)


def test_a_ratio_of_predictions_stands_beside_the_measured_one() -> None:
    def level(mean: float) -> Level:
        return Level(mean, mean - 0.1, mean + 0.1, 0.95, 8, "processes")

    gemm: dict[str, tuple[float, Level | None]] = {
        "A1": (44.0, level(50.0)),
        "A3": (40.0, level(40.0)),
        "A2": (42, None),
    }
    row = _ratio_row(90, ("A1", "A3"), gemm, Evidence())
    assert (row["figure"], row["arm"], row["blocks"]) == ("gemm ratio", "A1 / A3", 2)
    assert row["predicted"] == pytest.approx(1.1)
    assert (row["measured"], row["measured_mean"]) == ("1.250", pytest.approx(1.25))
    assert row["error_percent"] == pytest.approx(-12)
    unmeasured = _ratio_row(90, ("A2", "A3"), gemm, Evidence())
    assert unmeasured["predicted"] == pytest.approx(1.05)
    assert "measured" not in unmeasured
    assert "error_percent" not in unmeasured
