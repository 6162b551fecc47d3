"""How an Analysis is read: tables for people, rows for machines, the notes under them, and the exit status.

Nothing is computed here; every figure is a field of the Analysis. The trap: a table that shows only effects hides what
makes them claims, so clocks, A/A, exclusions, trends and every caution are printed with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stats.analysis.effect import Inference, Interval, format_p, percent
from stats.analysis.results import Analysis, Comparison, to_json
from stats.analysis.verdicts import Caution, Verdict
from stats.base.errors import UserError, choice
from stats.base.tables import Column, Format, render, told, wrapped
from stats.base.tables import to_json as json_text

FAIL_ON = ("regression", "material", "different", "cannot-tell", "never")

# Two tables, because one is wider than a terminal.
_CLAIMS = (
    Column("pair", "pair", align="left"),
    Column("metric", "metric", align="left"),
    Column("n", "n"),
    Column("effect", "effect %"),
    Column("interval", "interval %"),
    Column("verdict", "verdict", align="left"),
)
_EVIDENCE = (
    Column("pair", "pair", align="left"),
    Column("metric", "metric", align="left"),
    Column("hl", "Hodges–Lehmann %"),
    Column("simultaneous", "simultaneous %"),
    Column("p", "p"),
    Column("holm", "Holm p"),
    Column("detectable", "MDE %"),
)
_MARKDOWN = (*_CLAIMS[:5], *_EVIDENCE[2:], _CLAIMS[5])
_NUMBERS = tuple(
    Column(key, key)
    for key in (
        *("kind", "a", "b", "metric", "effect_percent", "low_percent", "high_percent", "confidence"),
        *("hl_percent", "hl_low_percent", "hl_high_percent", "hl_confidence"),
        *("simultaneous_low_percent", "simultaneous_high_percent", "simultaneous_confidence"),
        *("p", "p_holm", "p_minimum", "equivalence_p", "minimum_detectable_percent"),
        *("n", "unit", "blocks", "verdicts", "reason"),
    )
)


def _ends(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    low, high = interval.percent
    return f"{low:+.3f}…{high:+.3f}"


def _name(comparison: Comparison) -> str:
    if comparison.a == comparison.b:
        return f"{comparison.a} new/old"
    return f"{comparison.a}/{comparison.b}"


def _figure(value: float, sign: str = "+") -> str:
    return format(value, f"{sign}.3f") if math.isfinite(value) else "–"


def _text_row(comparison: Comparison) -> dict[str, Any]:
    found = comparison.inference
    return {
        "pair": _name(comparison),
        "metric": comparison.metric,
        "effect": _figure(found.effect_percent),
        "interval": _ends(found.t),
        "verdict": " + ".join(verdict.value for verdict in comparison.verdicts),
        "hl": _ends(found.hl),
        "simultaneous": _ends(found.t_simultaneous),
        "p": format_p(found.p),
        "holm": format_p(found.p_holm),
        "detectable": _figure(found.minimum_detectable_percent, ""),
        "n": found.n,
    }


def _number_row(comparison: Comparison, kind: str) -> dict[str, Any]:
    found: Inference = comparison.inference
    row: dict[str, Any] = {
        "kind": kind,
        "a": comparison.a,
        "b": comparison.b,
        "metric": comparison.metric,
        "effect_percent": found.effect_percent,
        "hl_percent": percent(found.hl_theta),
        "p": found.p,
        "p_holm": found.p_holm,
        "p_minimum": found.p_minimum,
        "equivalence_p": comparison.equivalence_p,
        "minimum_detectable_percent": found.minimum_detectable_percent,
        "n": found.n,
        "unit": found.unit,
        "blocks": comparison.blocks,
        "verdicts": "+".join(verdict.value for verdict in comparison.verdicts),
        "reason": found.untestable or "; ".join(caution.message for caution in comparison.cautions),
    }
    for prefix, interval in (("", found.t), ("hl_", found.hl), ("simultaneous_", found.t_simultaneous)):
        if interval is not None:
            row[f"{prefix}low_percent"], row[f"{prefix}high_percent"] = interval.percent
            row[f"{prefix}confidence"] = interval.confidence
    return row


def comparison_rows(result: Analysis) -> list[dict[str, Any]]:
    """One mapping of numbers for each comparison and A/A pair; what does not exist is nan or absent, with a reason."""
    rows = [_number_row(comparison, "comparison") for comparison in result.comparisons]
    return rows + [_number_row(comparison, "a/a") for comparison in result.aa]


def _record_notes(result: Analysis) -> list[str]:
    lines = []
    for record, exclusion in zip(result.records, result.exclusions, strict=True):
        lines.append(
            f"{record.name}: {record.tool} on {record.device}, {record.created_utc}, L2 {record.l2_mode}, "
            f"clocks {record.clocks}; sources {record.source_hash}, commit {record.git_commit}, seed {record.seed}"
        )
        accepted = f"  {exclusion.accepted} accepted of {exclusion.blocks} whole blocks in {record.processes} of"
        lines.append(
            f"{accepted} {record.processes_planned} processes; {exclusion.incomplete} incomplete blocks dropped"
        )
        for reason, blocks in exclusion.by_reason.items():
            cells = ", ".join(f"{arm} {counts.get(reason, 0)}" for arm, counts in exclusion.by_arm.items())
            lines.append(f"  excluded: {blocks} blocks, {reason} (cells: {cells})")
    return lines


def _trend_notes(result: Analysis) -> list[str]:
    lines = []
    for seen in result.diagnostics:
        for trend in seen.trends:
            if math.isfinite(trend.percent):
                size = f"{trend.percent:+.3f} % (p {format_p(trend.p)}, n {trend.n})"
                lines.append(f"{seen.record}: {trend.name} in {trend.metric}: {size}")
    for comparison in result.comparisons:
        if comparison.lag and comparison.lag.processes:
            lag = comparison.lag
            marked = f"Ljung-Box marks {lag.marked} of {lag.processes} processes at .05"
            lines.append(f"{_name(comparison)} in {comparison.metric}: lag-1 {lag.lag1:+.2f}, {marked}")
    return lines


def notes(result: Analysis) -> list[str]:
    """The lines under the table: how to read it, clocks, A/A, trends, and every caution."""
    level = 100 * (1 - result.alpha)
    above = "the new run takes longer" if result.mode == "unpaired" else "the first arm takes longer"
    attained = sorted({f"{100 * c.inference.hl.confidence:.1f}" for c in result.comparisons if c.inference.hl})
    lines = [
        f"Above 0 %: {above}. Interval: {level:g} % t on process means; Hodges–Lehmann attains "
        f"{' and '.join(attained) or 'no'} %.",
        f"Margin ±{result.margin_percent:g} %. Family of {result.family} for each metric. MDE: the smallest effect "
        "that so many processes would find, power 0.8.",
        *_record_notes(result),
    ]
    for arm in result.arms:
        kind = "measured" if arm.clock_measured else "cycles per time"
        time, cycles = _figure(arm.time_ns / 1e3, ""), f"{arm.sm_cycles:,.0f}" if arm.sm_cycles > 0 else "–"
        lines.append(
            f"{arm.record} {arm.arm}: {time} µs, {cycles} SM cycles a launch, clock {arm.clock_mhz:.0f} MHz ({kind})"
            if math.isfinite(arm.clock_mhz)
            else f"{arm.record} {arm.arm}: {time} µs, {cycles} SM cycles a launch"
        )
    for aa in result.aa:
        effect, tost = _figure(aa.inference.effect_percent), f"{100 * (1 - 2 * result.alpha):g} % interval"
        lines.append(f"A/A {_name(aa)} in {aa.metric}: {effect} %, {tost} {_ends(aa.inference.t_tost)} %")
    return lines + _trend_notes(result)


def _all_cautions(result: Analysis) -> list[tuple[str, Caution]]:
    found = [("", caution) for caution in result.cautions]
    for comparison in (*result.comparisons, *result.aa):
        found += [(f"{_name(comparison)} in {comparison.metric}: ", caution) for caution in comparison.cautions]
    return found


def _reasons(result: Analysis) -> dict[str, list[str]]:
    """For each kind of failure, the comparisons that are of it."""
    names = {id(c): f"{_name(c)} in {c.metric}" for c in result.comparisons}
    found: dict[str, list[str]] = {name: [] for name in FAIL_ON}
    for c in result.comparisons:
        if c.worse and Verdict.EQUIVALENT not in c.verdicts:
            found["regression"].append(names[id(c)])
        if c.worse and Verdict.MATERIAL in c.verdicts:
            found["material"].append(names[id(c)])
        if Verdict.DIFFERENT in c.verdicts:
            found["different"].append(names[id(c)])
        if c.undecided:
            found["cannot-tell"].append(names[id(c)])
    if result.unreliable:
        found["cannot-tell"].append("UNRELIABLE run")
    if not result.comparisons:
        found["cannot-tell"].append("nothing compared")
    return found


def exit_status(result: Analysis, fail_on: Sequence[str] = ("regression", "cannot-tell")) -> tuple[int, str]:
    """0 nothing worse, 1 a claim of a chosen kind, 2 cannot tell (when chosen), each with its reason.

    ``fail_on`` holds names of ``FAIL_ON``; no accepted block is 2 whatever was chosen. Raises UserError for others.
    """
    for kind in fail_on:
        choice("--fail-on", kind, FAIL_ON)
    if "never" in fail_on and len(fail_on) > 1:
        raise UserError("--fail-on: 'never' excludes the others; give one or the others")
    if result.accepted_blocks == 0:
        return 2, "0 accepted blocks"
    reasons = _reasons(result)
    for kind in ("regression", "material", "different"):
        if kind in fail_on and reasons[kind]:
            return 1, f"{kind}: {', '.join(reasons[kind])}"
    if "cannot-tell" in fail_on and reasons["cannot-tell"]:
        return 2, f"cannot tell: {', '.join(reasons['cannot-tell'])}"
    return 0, "nothing worse" if "never" not in fail_on else "not asked to fail"


def render_analysis(result: Analysis, fmt: Format, status: tuple[int, str]) -> str:
    """The analysis as text: two tables and notes, Markdown, CSV rows, or JSON of every field."""
    if fmt == "json":
        plain: Mapping[str, Any] = to_json(result)
        return json_text({**plain, "exit_status": status[0], "exit_reason": status[1]}) + "\n"
    if fmt == "csv":
        return render(_NUMBERS, comparison_rows(result), "csv")
    rows = [_text_row(comparison) for comparison in result.comparisons]
    cautions = [f"[{caution.code}] {where}{caution.message}" for where, caution in _all_cautions(result)]
    end = f"Exit status {status[0]}: {status[1]}."
    if fmt == "md":
        body = render(_MARKDOWN, rows, "md")
        below = [f"- {told(line.strip(), fmt)}\n" for line in [*notes(result), *cautions, end]]
        return body + "\n" + "".join(below)
    if any("/" in c.a + c.b for c in result.comparisons):  # which slash is the pair's?
        for row, c in zip(rows, result.comparisons, strict=True):
            row["pair"] = _name(c) if c.a == c.b else f"{c.a} / {c.b}"
    tables = render(_CLAIMS, rows, "table") + "\n" + render(_EVIDENCE, rows, "table")
    warned = ["", "Cautions:", *(f"  {line}" for line in cautions)] if cautions else []
    return tables + "\n" + "\n".join(map(wrapped, [*notes(result), *warned, "", end])) + "\n"
