"""All twelve verdicts as data and as a table, from records, machine code and addresses.

``results/claims.json`` holds what ``gemm-bench explain claims`` gives for the records in ``results/``; the same
records give the same file, so a change in it is a change in the evidence. The trap: a record of another kernel would
prove nothing about this one, so every finding carries the record's source hash.
"""

from __future__ import annotations

from typing import Any

from gemm.claims import gemm as claims_gemm
from gemm.claims import read_path as claims_read
from gemm.claims.finding import ClaimResult
from gemm.explain.evidence import Evidence
from stats.base.tables import Column, render, to_json, wrapped
from stats.run.progress import announced_steps

COLUMNS = [
    Column("number", "#", "d"),
    Column("claim", "claim", align="left"),
    Column("verdict", "verdict", align="left"),
    Column("a100", "A100", align="left"),
    Column("figure", "figure", align="left"),
    Column("right", "what is right", align="left"),
]
_JUDGES = (
    claims_read.claim_1,
    claims_read.claim_2,
    claims_read.claim_3,
    claims_read.claim_4,
    claims_read.claim_5,
    claims_read.claim_6,
    claims_read.claim_7,
    claims_gemm.claim_8,
    claims_gemm.claim_9,
    claims_gemm.claim_10,
    claims_gemm.claim_11,
    claims_gemm.claim_12,
)


def judge(evidence: Evidence) -> list[ClaimResult]:
    """A verdict per claim, in the order of their numbers in ``claims_text.CLAIMS``."""
    results = []
    with announced_steps(len(_JUDGES)) as step:
        for number, one in enumerate(_JUDGES, start=1):
            step(f"claim {number}")
            results.append(one(evidence))
    return results


def claim_rows(results: list[ClaimResult]) -> list[dict[str, Any]]:
    """One row per claim: verdict here and for A100, the figures, what is right, and the findings behind them."""
    return [result.as_data() for result in results]


def claims_on_terminal(results: list[ClaimResult]) -> str:
    """The verdicts as a table, and under it what each rests on and what is right, in lines of the terminal's width."""
    rows = claim_rows(results)
    lines = [render(COLUMNS[:4], rows, "table")]
    for row in rows:
        lines.append(wrapped(f"{row['number']}. {row['figure']}", 4))
        if row["right"]:
            lines.append(wrapped(f"    {row['right']}", 0))
    return "\n".join(lines) + "\n"


def claims_json(results: list[ClaimResult], evidence: Evidence) -> str:
    """The file's text: records used with their source hashes, then the claims."""
    used = sorted({(r.name, r.header.tool, r.header.source_hash) for r in evidence.records()})
    return (
        to_json(
            {
                "device": evidence.device,
                "records": [{"name": name, "tool": tool, "source_hash": digest} for name, tool, digest in used],
                "claims": [result.as_data() for result in results],
            }
        )
        + "\n"
    )
