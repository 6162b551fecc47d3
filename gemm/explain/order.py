"""Is the ladder's order predicted right? The GEMM's variants from slowest to fastest, predicted and measured.

Computed from the rows of the predictions themselves, so that it judges what is printed. The trap: a ratio has no
tolerance that anybody stated, but the order of two arms is right or wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_ABOVE = " > "


def _order(rows: Sequence[Mapping[str, Any]], figure: str) -> str:
    return _ABOVE.join(row["arm"] for row in sorted(rows, key=lambda row: -row[figure]))


def with_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows and, where all GEMM rows of ``predict.prediction_rows`` are measured, one with a verdict on their order.

    ``arm`` is the predicted order, slowest first, ``measured`` the measured one; ``within`` the verdict.
    """
    gemm = [row for row in rows if row["figure"] == "gemm"]
    if len(gemm) < 2 or not all("measured_mean" in row for row in gemm):
        return rows
    predicted, measured = _order(gemm, "predicted"), _order(gemm, "measured_mean")
    right = predicted == measured
    order = {"arch": gemm[0]["arch"], "figure": "gemm order", "arm": predicted, "blocks": None}
    return [*rows, order | {"measured": measured, "within": "order right" if right else "order WRONG"}]
