"""What is wrong with this machine, before it costs an hour? Every part of it is asked, nothing is changed.

Findings are data: topic, ok/warn/fail, detail, remedy. ``fail`` is kept for what this machine should be able to do and
cannot; a machine without a GPU fails nothing, since prediction, machine code and analysis need none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from micro.doctor import gpu as doctor_gpu
from micro.doctor import tools as doctor_tools
from micro.doctor.probes import Finding, Probes
from stats.base.tables import fitted, to_json


def diagnose(probes: Probes | None = None) -> list[Finding]:
    """Everything the doctor looks at, in the order in which a run would need it."""
    probes = probes if probes is not None else Probes()
    findings, seen = doctor_gpu.driver(probes)
    return [
        *findings,
        *doctor_gpu.devices(probes, seen),
        *doctor_gpu.clocks(probes, seen),
        *doctor_tools.python_and_torch(probes, seen),
        *doctor_tools.compiler(probes, seen),
        *doctor_tools.ncu(probes),
        *doctor_gpu.counters(probes, seen),
        *doctor_tools.disk(probes),
    ]


def exit_status(findings: Sequence[Finding]) -> int:
    """0 if nothing fails, else 1."""
    return int(any(finding.status == "fail" for finding in findings))


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    counted = Counter(finding.status for finding in findings)
    return {status: counted[status] for status in ("ok", "warn", "fail")}


def findings_text(findings: Sequence[Finding]) -> str:
    """One line for each finding, the remedy after an arrow, and a line of counts."""
    width = max(len(finding.topic) for finding in findings)
    lines = []
    for finding in findings:
        remedy = f" -> {finding.remedy}" if finding.remedy else ""
        text = " ".join(f"{finding.detail}{remedy}".split())
        lines.append(fitted(f"{finding.status:<4}  {finding.topic:<{width}}  {text}", width + 8))
    lines.append(", ".join(f"{count} {status}" for status, count in _counts(findings).items()))
    return "\n".join(lines) + "\n"


def findings_json(findings: Sequence[Finding]) -> str:
    """The findings and their counts as JSON."""
    rows = [
        {"topic": finding.topic, "status": finding.status, "detail": finding.detail, "remedy": finding.remedy}
        for finding in findings
    ]
    return to_json({"findings": rows, **_counts(findings)}) + "\n"
