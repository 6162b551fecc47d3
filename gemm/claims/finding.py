"""What a verdict is: on which architecture, on what basis, by which figure, and how a reader gets it again.

A claim has one finding per architecture and basis. What was measured on one GPU says nothing by itself about another,
so the other gets a finding of its own with the basis "prediction". The trap: a claim with two halves can be half
right; it is refuted, and ``right`` says which half holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Literal

from gemm.claims.text import CLAIMS, RIGHT
from gemm.explain.evidence import Evidence
from stats.record.schema import Record

A100 = "A100 (sm_80)"

Basis = Literal["measured", "machine code", "addresses", "prediction"]


class Verdict(str, Enum):
    """What became of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_TESTABLE = "not testable here"


@dataclass(frozen=True)
class Finding:
    """One verdict: where it holds, by which figure, from which record, by which command."""

    where: str  # "NVIDIA H200 (sm_90)", "sm_80", "every architecture built for"
    basis: Basis
    verdict: Verdict
    figure: str
    command: str
    record: str = ""

    def text(self) -> str:
        """``refuted on NVIDIA H200 (sm_90)``; a prediction says so."""
        basis = "predicted for" if self.basis == "prediction" else "on" if self.basis == "measured" else "by"
        what = self.where if self.basis in ("measured", "prediction") else f"{self.basis}, {self.where}"
        return f"{self.verdict.value} ({basis} {what})"


@dataclass(frozen=True)
class ClaimResult:
    """A claim under test, what was found, and what is right."""

    number: int
    claim: str
    findings: tuple[Finding, ...]
    right: str

    def verdict_of(self, *bases: Basis) -> Verdict | None:
        """The verdict over findings of these bases: refuted if any is, confirmed if any is and none refutes."""
        verdicts = {finding.verdict for finding in self.findings if finding.basis in bases}
        for verdict in (Verdict.REFUTED, Verdict.CONFIRMED, Verdict.NOT_TESTABLE):
            if verdict in verdicts:
                return verdict
        return None

    def as_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        here = self.verdict_of("measured", "machine code", "addresses")
        # Machine code and addresses were looked at for sm_80 too; only what needs a clock is a prediction there.
        is_prediction = self.verdict_of("prediction") is not None
        a100 = self.verdict_of("prediction") or self.verdict_of("machine code", "addresses") or Verdict.NOT_TESTABLE
        return {
            "number": self.number,
            "claim": self.claim,
            "verdict": here.value if here else None,
            "a100": a100.value + (" (prediction)" if is_prediction and a100 is not Verdict.NOT_TESTABLE else ""),
            "figure": "; ".join(finding.figure for finding in self.findings if finding.basis != "prediction"),
            "right": self.right,
            "findings": [{**asdict(f), "verdict": f.verdict.value} for f in self.findings],
        }


def place(evidence: Evidence) -> str:
    """Where a measurement holds: the GPU of the records."""
    return f"{evidence.device} (sm_{evidence.arch})" if evidence.device else "this machine"


def result_of(number: int, findings: Iterable[Finding]) -> ClaimResult:
    """A claim's result with its wording and what is right."""
    return ClaimResult(number, CLAIMS[number], tuple(findings), RIGHT[number])


def record_name(record: Record | None) -> str:
    """How a finding names its record: file name and source hash."""
    return "" if record is None else f"{record.name} ({record.header.source_hash})"


def untestable(where: str, basis: Basis, why: str, command: str) -> Finding:
    """No verdict, and what it would take."""
    return Finding(where, basis, Verdict.NOT_TESTABLE, why, command)
