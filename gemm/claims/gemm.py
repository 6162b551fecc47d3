"""Claims 8 to 12 of those under test: the read path in the GEMM, its epilogue, its pipeline, shared memory, counters.

Effects are those of the declared comparisons in SM cycles with their intervals; a verdict needs the whole interval on
one side of the claim's bound, else the record does not decide. For A100 the simulator predicts. The trap: a GEMM that
is equally slow in all variants hides the read path without proving that it costs nothing.
"""

from __future__ import annotations

from gemm.claims.counts import standings
from gemm.claims.finding import A100, ClaimResult, Finding, Verdict, place, record_name, result_of, untestable
from gemm.claims.read_path import CLAIMED
from gemm.explain.effects import effect
from gemm.explain.evidence import Evidence
from gemm.explain.figures import machine_for
from gemm.explain.predict import predict_gemm
from gemm.kernel.variants import Kernel, Wait
from micro.model.layout import layout
from stats.base.errors import BenchError

_SINGLE_BUFFER_PERCENT = 2.0  # how near to STAGES=1 "degrades to a single buffer" must come
_STATIC_LIMIT_BYTES = 48 * 1024  # per block without the opt-in (CUDA C++ Programming Guide, "Shared Memory")
_PREDICT = "gemm-bench explain --arch 80"


def _text(found: tuple[float, float, float]) -> str:
    return f"{found[0]:+.2f} % [{found[1]:+.2f}, {found[2]:+.2f}]"


def _bounded(found: list[tuple[float, float, float]], bound_percent: float) -> Verdict:
    """Confirmed: every interval inside ±bound. Refuted: one wholly beyond it. Else the record does not decide."""
    if any(low > bound_percent or high < -bound_percent for _, low, high in found):
        return Verdict.REFUTED
    if all(-bound_percent <= low and high <= bound_percent for _, low, high in found):
        return Verdict.CONFIRMED
    return Verdict.NOT_TESTABLE


def _predicted(kernel: Kernel, arch: int, evidence: Evidence) -> float:
    own = evidence if evidence.arch == arch else Evidence()
    machine = machine_for(arch, own, variant=kernel.variant)
    return predict_gemm(kernel, machine, blocks_per_sm=2).cycles_per_kstep


def claim_8(evidence: Evidence) -> ClaimResult:
    """A1 against A3 (the whole) and A2 against A2L (the instruction alone)."""
    pairs = (("A1", "A3"), ("A2", "A2L"))
    command = "gemm-bench --config ladder-a"
    findings = []
    record = evidence.gemm_record(*CLAIMED)
    effects = {pair: effect(record, *pair) for pair in pairs} if record else {}
    known = {pair: found for pair, found in effects.items() if found}
    if record is None or len(known) < len(pairs):
        findings.append(
            untestable(place(evidence), "measured", "no GEMM record with an interval for both pairs", command)
        )
    else:
        figure = f"{record.name}: " + "; ".join(f"{a} against {b} {_text(found)}" for (a, b), found in known.items())
        verdict = _bounded(list(known.values()), 5)
        findings.append(Finding(place(evidence), "measured", verdict, figure, command, record_name(record)))
    try:
        own = {v: _predicted(Kernel(v), 80, evidence) for v in CLAIMED}
        ratios = {pair: 100 * (own[pair[0]] / own[pair[1]] - 1) for pair in pairs}
        figure = "; ".join(f"{a} against {b} {ratio:+.0f} %" for (a, b), ratio in ratios.items())
        verdict = Verdict.REFUTED if any(abs(ratio) > 5 for ratio in ratios.values()) else Verdict.CONFIRMED
        findings.append(Finding(A100, "prediction", verdict, figure, _PREDICT))
    except BenchError as error:
        findings.append(untestable(A100, "prediction", str(error), _PREDICT))
    return result_of(8, findings)


def claim_9(evidence: Evidence) -> ClaimResult:
    """The simple epilogue against the staged one, all four variants."""
    pairs = [(v, f"{v}/staged") for v in CLAIMED]
    command = "gemm-bench --config epilogue"
    record = evidence.gemm_record(*(arm for pair in pairs for arm in pair))
    found = [effect(record, *pair) for pair in pairs] if record else []
    known = [one for one in found if one]
    if record is None or len(known) < len(pairs):
        finding = untestable(
            place(evidence), "measured", "no GEMM record holds simple and staged with intervals", command
        )
    else:
        # Only a simple epilogue that is slower than the staged one contradicts the claim.
        cost = [(mean, max(low, 0.0), max(high, 0.0)) for mean, low, high in known]
        figure = f"{record.name}, simple against staged: " + "; ".join(
            f"{a} {_text(e)}" for (a, _), e in zip(pairs, known, strict=True)
        )
        finding = Finding(place(evidence), "measured", _bounded(cost, 1), figure, command, record_name(record))
    other = untestable(A100, "prediction", "the simulator holds the main loop only", _PREDICT)
    return result_of(9, (finding, other))


def _rings(variant: str) -> tuple[str, ...]:
    """The arm of a variant that waits for all, and those it is held against: rings of three, two and one stages."""
    return f"{variant}/wait_all", variant, f"{variant}/stages=2", f"{variant}/stages=1"


def _third_stage(evidence: Evidence) -> str:
    """What two stages cost against three, where a record holds it: what waiting for all gives away."""
    pairs = [(f"{v}/stages=2", v) for v in CLAIMED]
    record = evidence.gemm_record(*(arm for pair in pairs for arm in pair))
    found = {b: effect(record, a, b) for a, b in pairs} if record else {}
    known = [f"{variant} {_text(one)}" for variant, one in found.items() if one]
    return f"; {record.name}, two stages against three: {', '.join(known)}" if record and known else ""


def claim_10(evidence: Evidence) -> ClaimResult:
    """wait_group<0> at three stages beside rings of three, two and one stages, in every variant of the record."""
    command = "gemm-bench --config wait-all"
    findings = []
    records = ((v, evidence.gemm_record(*_rings(v))) for v in CLAIMED)
    held = {variant: record for variant, record in records if record}
    effects = {
        variant: {other: effect(record, _rings(variant)[0], other) for other in _rings(variant)[1:]}
        for variant, record in held.items()
    }
    known = {
        variant: {other: one for other, one in found.items() if one}
        for variant, found in effects.items()
        if all(found.values())
    }
    if not known:
        wanted = ", ".join(_rings("A3"))
        findings.append(untestable(place(evidence), "measured", f"no GEMM record holds {wanted}", command))
    else:
        verdict = _bounded([found[f"{variant}/stages=1"] for variant, found in known.items()], _SINGLE_BUFFER_PERCENT)
        figure = "; ".join(
            f"{variant}/wait_all against " + ", ".join(f"{other} {_text(one)}" for other, one in found.items())
            for variant, found in known.items()
        )
        names = ", ".join(dict.fromkeys(held[variant].name for variant in known))
        sources = "; ".join(dict.fromkeys(record_name(held[variant]) for variant in known))
        figure = f"{names}: {figure}{_third_stage(evidence)}"
        findings.append(Finding(place(evidence), "measured", verdict, figure, command, sources))
    try:
        said, near = [], []
        for variant in known or ("A3",):
            kernels = {
                "wait_all": Kernel(variant, wait=Wait.ALL),
                "3 stages": Kernel(variant),
                "2 stages": Kernel(variant, stages=2),
                "1 stage": Kernel(variant, stages=1),
            }
            cycles = {name: _predicted(kernel, 80, evidence) for name, kernel in kernels.items()}
            near.append(abs(cycles["wait_all"] / cycles["1 stage"] - 1) * 100 <= _SINGLE_BUFFER_PERCENT)
            said.append(f"{variant} " + ", ".join(f"{name} {value:.1f}" for name, value in cycles.items()))
        figure = "cycles per warp k-step: " + "; ".join(said)
        verdict = Verdict.CONFIRMED if all(near) else Verdict.REFUTED
        findings.append(Finding(A100, "prediction", verdict, figure, _PREDICT))
    except BenchError as error:
        findings.append(untestable(A100, "prediction", str(error), _PREDICT))
    return result_of(10, findings)


def claim_11(evidence: Evidence) -> ClaimResult:
    """Bytes by the layout; the need for the opt-in by launches with and without it in the stream run."""
    needed = 4 * layout().constants.stage_bytes
    ok = needed == 64 * 1024 and needed > _STATIC_LIMIT_BYTES
    findings = [
        Finding(
            "every architecture",
            "addresses",
            Verdict.CONFIRMED if ok else Verdict.REFUTED,
            f"4 stages take {needed} bytes, above the {_STATIC_LIMIT_BYTES} that a launch gets without the attribute",
            "gemm-bench sass",
        )
    ]
    command = "gemm-bench explain stream"
    facts = evidence.stream.header.arms[0].static if evidence.stream else {}
    without, with_it = (facts.get(f"launch_{needed}_bytes_{word}_opt_in") for word in ("without", "with"))
    if without is None:
        findings.append(untestable(place(evidence), "measured", "no stream run tried the launches", command))
    else:
        verdict = Verdict.CONFIRMED if with_it and not without else Verdict.REFUTED
        said = {True: "succeeds", False: "fails"}
        outcome = f"{said[bool(without)]} without the attribute and {said[bool(with_it)]} with it"
        figure = f"a launch with {needed} bytes {outcome}"
        findings.append(Finding(place(evidence), "measured", verdict, figure, command, record_name(evidence.stream)))
    findings.append(
        Finding(
            A100, "prediction", Verdict.CONFIRMED if ok else Verdict.REFUTED, "the limit is the same on sm_80", _PREDICT
        )
    )
    return result_of(11, findings)


def claim_12(evidence: Evidence) -> ClaimResult:
    """Which of the expected counter names exist on this chip, and whether counts are what the kernels had to show."""
    command = "micro-bench counters; gemm-bench counters"
    findings = []
    for path, data in evidence.counters:
        drafts = data.get("drafts", [])
        absent = [row["name"] for row in drafts if not row["exists"]]
        found = standings(data)
        present = ", ".join(row["name"] for row in drafts if row["exists"]) or "none"
        counts = found.text() if found else "not classified (another schema)"
        figure = (
            f"{path.stem}: exist {present}; absent {', '.join(absent) or 'none'}; "
            f"counts against what the kernels had to show: {counts}"
        )
        # A count that differs without a known cause refutes nothing yet, and confirms nothing either.
        settled = bool(drafts) and found is not None and not found.open
        verdict = Verdict.REFUTED if absent else Verdict.CONFIRMED if settled else Verdict.NOT_TESTABLE
        device = data.get("device", {}).get("name", "unknown device")
        findings.append(Finding(device, "measured", verdict, figure, command, path.name))
    if not findings:
        findings.append(
            untestable(place(evidence), "measured", "no record of counters (ncu absent or not permitted)", command)
        )
    return result_of(12, findings)
