"""What ``gemm-bench explain`` shows of its sections: the order's verdict, figures with digits enough, progress."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest

from gemm.claims.finding import ClaimResult
from gemm.claims.verdicts import claims_on_terminal
from gemm.explain.attribution import Part
from gemm.explain.order import with_order
from stats.run.progress import announced_steps


def rows(**measured: float | None) -> list[dict[str, Any]]:
    predicted = {"A1": 55.0, "A2": 48.0, "A3": 40.0}
    made: list[dict[str, Any]] = [{"figure": "load", "arm": "A1:load", "predicted": 99.0, "arch": 90}]
    for arm, cycles in measured.items():
        row: dict[str, Any] = {"figure": "gemm", "arm": arm, "predicted": predicted[arm], "arch": 90}
        made.append(row if cycles is None else row | {"measured_mean": cycles})
    return made


def test_the_order_has_a_verdict_of_its_own() -> None:
    right = with_order(rows(A1=57.0, A2=52.0, A3=45.0))[-1]
    assert (right["figure"], right["arm"], right["within"]) == ("gemm order", "A1 > A2 > A3", "order right")
    wrong = with_order(rows(A1=57.0, A2=45.0, A3=52.0))[-1]
    assert (wrong["arm"], wrong["measured"], wrong["within"]) == ("A1 > A2 > A3", "A1 > A3 > A2", "order WRONG")


def test_an_order_that_was_not_measured_has_none() -> None:
    unmeasured = rows(A1=57.0, A2=None, A3=45.0)
    assert with_order(unmeasured) == unmeasured
    assert with_order(rows(A1=57.0)) == rows(A1=57.0)


@pytest.mark.parametrize(
    ("cycles", "half_width", "text"),
    [
        (9.412, 0.023, "+9.41 ±0.02"),
        (9.412, math.nan, "+9.41"),
        (7.8012, 0.0004, "+7.8012 ±0.0004"),
        (-0.001, 0.02, "-0.001 ±0.020"),
        (0.0, 0.0, "0"),
        (1e-15, 0.021, "+0.00 ±0.02"),
    ],
)
def test_no_figure_that_is_not_zero_is_shown_as_zero(cycles: float, half_width: float, text: str) -> None:
    assert Part("part", cycles, half_width, "source").text() == text


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_announced_on_a_terminal_only() -> None:
    for stream in (_Terminal(), io.StringIO()):
        with announced_steps(2, stream) as step:
            step("the first")
            step("the second")
        assert ("the second" in stream.getvalue()) is stream.isatty()


def test_claims_on_a_terminal_fit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = claims_on_terminal(
        [ClaimResult(number=4, claim="a word of it " * 20, right="what is right " * 20, findings=())]
    )
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.split()).count("what is right") == 20
