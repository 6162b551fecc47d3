"""Every recorded GEMM kernel is predicted, the ladder's first; without one there is a line that says so."""

from __future__ import annotations

import pytest

from gemm.explain import reach
from gemm.explain.predict import GemmPrediction
from gemm.kernel.variants import Kernel
from gemm.simulator.machine import Machine
from stats.base.errors import UserError
from tests.makers import explain_records as made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of a simulation: 50 cycles per resident block."""

    def predicted(kernel: Kernel, machine: Machine, *, blocks_per_sm: int) -> GemmPrediction:
        return GemmPrediction(kernel, 8, 1e6, 50.0 * blocks_per_sm)

    monkeypatch.setattr(reach, "predict_gemm", predicted)


@pytest.mark.usefixtures("quick")
def test_every_recorded_kernel_is_predicted_the_ladders_first() -> None:
    evidence = made.evidence(gemms=(made.gemm({"A3/stages=2": 1}, A3__stages_2=40.0, A3=80.0, A1__staged=100.0),))
    rows = reach.reach_rows(evidence, 90)
    assert [(row["arm"], row["ladder"]) for row in rows] == [("A3", "yes"), ("A1/staged", "no"), ("A3/stages=2", "no")]
    assert [row["error_percent"] for row in rows] == pytest.approx([25, 0, 25], abs=0.1)


@pytest.mark.usefixtures("quick")
def test_a_record_without_gemm_kernels_of_the_architecture_is_refused() -> None:
    with pytest.raises(UserError, match=r"^kernels: no record holds accepted cells of a GEMM on sm_90; record"):
        reach.reach_rows(made.evidence(), 90)
    with pytest.raises(UserError, match="on sm_80"):
        reach.reach_rows(made.evidence(gemms=(made.gemm(A3=80.0),)), 80)
