"""Claims 1 to 7 of those under test: load counts, bytes, bank conflicts, the port's share at tensor peak.

Counts come from machine code, conflicts from the addresses in ``layout.cuh``, and the load-only measurement decides
whether the bank model is right: a conflict the model does not know would show as cycles. The trap: "4-way" is a count
of wavefronts, which lanes that share a word do not raise, so lanes per bank must not be counted instead.
"""

from __future__ import annotations

from gemm.claims.counts import conflicts_per_kstep
from gemm.claims.finding import A100, ClaimResult, Finding, Verdict, place, record_name, result_of, untestable
from gemm.explain.evidence import Evidence
from gemm.kernel.variants import Kernel
from gemm.simulator.kernels import gemm_program, micro_program
from gemm.simulator.machine import machine
from gemm.simulator.memory import COPY_BYTES
from micro.bench.contention.design import arm_called
from micro.model.arm_names import Work
from micro.model.banks import KstepWavefronts, Load, kstep_wavefronts
from micro.model.variants import VARIANTS
from stats.base.errors import BenchError

ARCHS = (80, 86, 89, 90, 100, 120)
GEMM_ARCHS = (80, 90)
EXPECTED_LOADS = {"A1": 32, "A2": 24, "A2L": 8, "A3": 8}
CLAIMED = tuple(EXPECTED_LOADS)  # the claims speak of these; a variant that came later changes no verdict
MICRO = "micro-bench --do-mma both --config micro-record"
LOADS_AND_COPIES = "ldmatrix.x4/n6+cp.async/c2"  # an arm of the contention record
PORT_BYTES = 128  # a cycle, of an SM's port for loads
_TOLERANCE = 0.03  # of load-only cycles: a single extra wavefront per load would be 33 % of A2's


def _bytes(load: Load) -> int:
    """Bytes into registers: 32 lanes of their width, or the 128 bytes of each 8x8 tile, 8 addresses a tile."""
    return len(load.addresses) * load.bytes_per_lane


def _count(variant: str) -> KstepWavefronts:
    return kstep_wavefronts(VARIANTS[variant], True)


def claim_1(evidence: Evidence) -> ClaimResult:
    """Loads per warp k-step in the machine code of both kernels, on every architecture that nvcc knows of ARCHS."""
    command = "micro-bench sass; gemm-bench sass"
    wrong: list[str] = []
    seen: list[str] = []
    try:
        from micro.gpu.toolchain import find_toolkit

        known = set(find_toolkit().architectures)
        for arch in (a for a in ARCHS if a in known):
            for variant, expected in EXPECTED_LOADS.items():
                programs = [micro_program(variant, "load+mma", arch)]
                programs += [gemm_program(Kernel(variant), arch)] if arch in GEMM_ARCHS else []
                for program in programs:
                    loads = program.count("load") / program.ksteps
                    if loads != expected:
                        wrong.append(f"{program.name}: {loads:g}")
            seen.append(f"sm_{arch}")
    except BenchError as error:
        return result_of(1, (untestable("", "machine code", str(error), command),))
    verdict = Verdict.REFUTED if wrong else Verdict.CONFIRMED
    figure = "; ".join(wrong) if wrong else f"32 / 24 / 8 / 8 in the main loops on {', '.join(seen)}"
    finding = Finding(", ".join(seen), "machine code", verdict, figure, command)
    return result_of(1, (finding,))


def claim_2(evidence: Evidence) -> ClaimResult:
    """Bytes by the addresses, equality of outputs by the gate that every GEMM record passed."""
    moved = {v: sum(_bytes(load) for load in _count(v).loads) for v in CLAIMED}
    same = len(set(moved.values())) == 1
    findings = [
        Finding(
            "every architecture",
            "addresses",
            Verdict.CONFIRMED if same else Verdict.REFUTED,
            f"bytes per warp k-step into registers: {', '.join(f'{v} {b}' for v, b in moved.items())}",
            "micro-bench banks",
        )
    ]
    record = evidence.gemm_record(*CLAIMED)
    gate = "gemm-bench check"
    if record is None:
        findings.append(untestable(place(evidence), "measured", "no GEMM record holds all four variants", gate))
    else:
        figure = "the gate compared all variants to the bit in each process of the record before it was timed"
        findings.append(Finding(place(evidence), "measured", Verdict.CONFIRMED, figure, gate, record_name(record)))
    return result_of(2, findings)


def _conflict_free(number: int, evidence: Evidence, side: str, variants: tuple[str, ...]) -> ClaimResult:
    """No wavefront beyond the ideal by the addresses, and load-only at the predicted cycles."""
    excess = {v: sum(load.wavefronts.excess for load in _count(v).loads if load.operand == side) for v in variants}
    findings = [
        Finding(
            "every architecture",
            "addresses",
            Verdict.REFUTED if any(excess.values()) else Verdict.CONFIRMED,
            f"wavefronts that conflicts add on the {side} side: {', '.join(f'{v} {e}' for v, e in excess.items())}",
            "micro-bench banks",
        ),
        _load_only(evidence, variants),
    ]
    return result_of(number, findings)


def _load_only(evidence: Evidence, variants: tuple[str, ...]) -> Finding:
    record = evidence.micro.get(2)
    said, worst = [], 0.0
    for variant in variants:
        level = evidence.micro_level(variant, Work.LOAD)
        if level is None:
            return untestable(place(evidence), "measured", f"no micro record holds {variant}:load", MICRO)
        predicted = _count(variant).total
        worst = max(worst, level.mean / predicted - 1)
        said.append(f"{variant} {level.text('.3f')} for {predicted} wavefronts")
    verdict = Verdict.CONFIRMED if worst <= _TOLERANCE else Verdict.REFUTED
    figure = f"load-only cycles per warp k-step: {', '.join(said)}"
    return Finding(place(evidence), "measured", verdict, figure, MICRO, record_name(record))


def claim_3(evidence: Evidence) -> ClaimResult:
    """The A side is free of conflicts under SWZ_A."""
    return _conflict_free(3, evidence, "A", ("A2", "A2L", "A3"))


def claim_5(evidence: Evidence) -> ClaimResult:
    """A2's B side is free of conflicts."""
    return _conflict_free(5, evidence, "B", ("A2",))


def claim_4(evidence: Evidence) -> ClaimResult:
    """Banks and ways of A1's b16 reads, by the addresses and by load-only with and without the swizzle."""
    off, on = kstep_wavefronts(VARIANTS["A1"], False), _count("A1")
    b_off = next(load.wavefronts for load in off.loads if load.operand == "B")
    b_on = next(load.wavefronts for load in on.loads if load.operand == "B")
    as_claimed = (b_off.banks, b_off.total, b_on.total) == (8, 4, 2)
    findings = [
        Finding(
            "every architecture",
            "addresses",
            Verdict.CONFIRMED if as_claimed else Verdict.REFUTED,
            f"unswizzled {b_off.banks} banks and {b_off.total} wavefronts, SWZ_B {b_on.banks} and {b_on.total}",
            "micro-bench banks --variants A1 --swizzle both",
        )
    ]
    level_on, level_off = evidence.micro_level("A1", Work.LOAD), evidence.micro_level("A1", Work.LOAD, swizzle=False)
    reads = sum(load.operand == "B" for load in on.loads)
    if level_on and level_off:
        ways_on, ways_off = (level_on.mean - on.a) / reads, (level_off.mean - off.a) / reads
        claimed = abs(ways_off - 4) < 0.5 and abs(ways_on - 2) < 0.5
        figure = (
            f"A1 load-only {level_on.text('.3f')} with the swizzle, {level_off.text('.3f')} without: less A's {on.a} "
            f"and {off.a} wavefronts, {ways_on:.2f} and {ways_off:.2f} cycles per b16 read"
        )
        verdict = Verdict.CONFIRMED if claimed else Verdict.REFUTED
        findings.append(Finding(place(evidence), "measured", verdict, figure, MICRO, record_name(evidence.micro[2])))
    else:
        findings.append(
            untestable(place(evidence), "measured", "no micro record holds A1 with and without swizzle", MICRO)
        )
    return result_of(4, findings)


def claim_6(evidence: Evidence) -> ClaimResult:
    """Is A1's lag made of conflicts? With the swizzle it has none; what it has is more, emptier wavefronts."""
    a1, a2 = _count("A1"), _count("A2")
    excess = a1.b - sum(load.wavefronts.ideal for load in a1.loads if load.operand == "B")
    findings = [
        Finding(
            "every architecture",
            "addresses",
            Verdict.CONFIRMED if 2 * excess > a1.total - a2.total else Verdict.REFUTED,
            f"conflicts add {excess} of the {a1.total - a2.total} wavefronts by which A1 exceeds A2",
            "micro-bench banks",
        )
    ]
    one, two = evidence.micro_level("A1", Work.LOAD), evidence.micro_level("A2", Work.LOAD)
    if one and two:
        lag, by_count = one.mean - two.mean, a1.instructions - a2.instructions
        conflicts = one.mean - a1.ideal
        verdict = Verdict.CONFIRMED if conflicts > lag / 2 else Verdict.REFUTED
        figure = (
            f"A1 lags A2 by {lag:.3f} load-only cycles and has {by_count} more loads of one wavefront; "
            f"{conflicts:+.3f} cycles above its conflict-free wavefronts"
        )
        findings.append(Finding(place(evidence), "measured", verdict, figure, MICRO, record_name(evidence.micro[2])))
    else:
        findings.append(untestable(place(evidence), "measured", "no micro record holds A1:load and A2:load", MICRO))
    for path, data in evidence.counters:
        on, off = conflicts_per_kstep(data, "A1:load"), conflicts_per_kstep(data, "A1/noswz:load")
        if on is not None and off is not None:
            verdict = Verdict.CONFIRMED if on > (a1.total - a2.total) / 2 else Verdict.REFUTED
            figure = f"counted bank conflicts of A1 per warp k-step: {on:.2f} with the swizzle, {off:.2f} without"
            device = data.get("device", {}).get("name", "unknown device")
            findings.append(Finding(device, "measured", verdict, figure, "micro-bench counters", path.name))
    return result_of(6, findings)


def _beside_copies(evidence: Evidence) -> str:
    """Does what cp.async brings take the loads' port as loads of its bytes would? Not if both together take less."""
    both, arm = evidence.contention_level(LOADS_AND_COPIES), arm_called(LOADS_AND_COPIES)
    if both is None or arm is None:
        return "; no contention record says whether what cp.async brings takes time of the port"
    loads, brought = arm.port_cycles, (arm.copies or 0) * COPY_BYTES // PORT_BYTES
    outside = both.high < loads + brought
    return (
        f"; loads of {loads} cycles of that port and copies of {brought} take {both.text('.3f')} together, "
        f"{'less' if outside else 'no less'} than if what cp.async brings passed it as loads do"
    )


def claim_7(evidence: Evidence) -> ClaimResult:
    """Read wavefronts over the mma cycles of a k-step: on A100 by published rates, here by L and M."""
    peak = machine(80).mma_cycles_per_kstep
    shares = {v: 100 * _count(v).total / peak for v in CLAIMED}
    as_claimed = all(abs(shares[v] - 75) < 2.5 for v in ("A2", "A2L", "A3"))
    figure = f"reads {', '.join(f'{v} {s:.0f} %' for v, s in shares.items())} of {peak:g} cycles; "
    figure += "whether what cp.async brings takes time of the port is not known there"
    findings = [
        Finding(
            A100,
            "prediction",
            Verdict.CONFIRMED if as_claimed else Verdict.REFUTED,
            figure,
            "gemm-bench explain --arch 80",
        )
    ]
    load, mma = evidence.micro_level("A3", Work.LOAD), evidence.micro_level("A3", Work.MMA)
    if load and mma:
        share = 100 * load.mean / mma.mean
        verdict = Verdict.CONFIRMED if abs(share - 75) < 2.5 else Verdict.REFUTED
        figure = f"A3: L {load.text('.3f')} of M {mma.text('.3f')} cycles, {share:.0f} %{_beside_copies(evidence)}"
        records = "; ".join(record_name(one) for one in (evidence.micro[2], evidence.contention) if one)
        command = f"{MICRO}; micro-bench contention" if evidence.contention else MICRO
        findings.append(Finding(place(evidence), "measured", verdict, figure, command, records))
    else:
        findings.append(untestable(place(evidence), "measured", "no micro record holds A3:load and mma", MICRO))
    return result_of(7, findings)
