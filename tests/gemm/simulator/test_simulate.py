"""The simulator on programs small enough to be worked out by hand, and its bounds on every program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemm.simulator.machine import PerKind, machine
from gemm.simulator.program import Op, Program, decode_control, parse_controls
from gemm.simulator.simulate import Blocks, simulate
from micro.gpu.limits import SUB_PARTITIONS

M = replace(
    machine(80),
    mma_interval_cycles=8,
    load_latency_cycles=20,
    wavefront_latency_cycles=2,
    barrier_cycles=10,
    mma_operand_cycles=0,
    alu_operand_cycles=0,
    operand_reads=PerKind(load=1, blank=1, store=1, copy=1, commit=1),
)


def program(*ops: Op, ksteps: int = 1) -> Program:
    return Program("test", 80, ops, ksteps)


def test_issue_bound() -> None:
    """Eight warps, two per scheduler, 10 instructions a pass: 20 cycles a pass."""
    plain = program(*[Op("plain")] * 10)
    found = simulate(plain, M, blocks=1, loops=50)
    assert found.cycles == pytest.approx(50 * 20, abs=2)
    assert found.issue_busy == pytest.approx(1, abs=0.01)


def test_stall_counts_bound_one_warp() -> None:
    """One warp, stalls of 4 cycles: 4 cycles each, whatever else is free."""
    found = simulate(program(*[Op("plain", stall_cycles=4)] * 5), M, blocks=1, warps_per_block=1, loops=10)
    assert found.cycles == pytest.approx(10 * 5 * 4, abs=4)


def test_two_warps_of_a_scheduler_overlap_their_stalls() -> None:
    """Warps 0 and 4 share a scheduler: the second runs in the stalls of the first, so five warps take no longer."""
    stalls = program(*[Op("plain", stall_cycles=4)] * 5)
    one = simulate(stalls, M, blocks=1, warps_per_block=1, loops=10)
    two = simulate(stalls, M, blocks=1, warps_per_block=5, loops=10)
    assert two.cycles == pytest.approx(one.cycles, abs=2)


@pytest.mark.parametrize("wavefronts", [1, 2, 4])
def test_port_bound(wavefronts: int) -> None:
    """Many warps, loads nobody waits for: the port's wavefronts are the time."""
    loads = program(*[Op("load", wavefronts=wavefronts)] * 8)
    found = simulate(loads, M, blocks=2, loops=10)
    assert found.cycles == pytest.approx(16 * 8 * 10 * wavefronts, rel=0.02)
    assert found.port_busy == pytest.approx(1, abs=0.02)


def test_one_sub_partition_cannot_use_the_whole_port() -> None:
    """A load leaves a sub-partition's queue every four cycles, though the port is free."""
    loads = program(*[Op("load", wavefronts=1)] * 8)
    found = simulate(loads, M, blocks=1, warps_per_block=1, loops=20)
    assert found.cycles == pytest.approx(20 * 8 * M.queue_cycles.load, rel=0.03)


def test_dependent_chain_takes_the_latency() -> None:
    """A load that waits for the one before: latency each, plus two cycles per further wavefront."""
    for wavefronts in (1, 4):
        chain = program(Op("load", wavefronts=wavefronts, sets_on_result=0, waits_for=(0,)))
        found = simulate(chain, M, blocks=1, warps_per_block=1, loops=40)
        each = M.load_latency_cycles + M.wavefront_latency_cycles * (wavefronts - 1)
        assert found.cycles / 40 == pytest.approx(each, abs=1.5)


def test_two_warps_overlap_their_latencies() -> None:
    """Two chains on two schedulers take the time of one."""
    chain = program(Op("load", wavefronts=1, sets_on_result=0, waits_for=(0,)))
    one = simulate(chain, M, blocks=1, warps_per_block=1, loops=40)
    two = simulate(chain, M, blocks=1, warps_per_block=2, loops=40)
    assert two.cycles == pytest.approx(one.cycles, rel=0.05)


def test_tensor_bound() -> None:
    """Each sub-partition has one tensor pipe: 16 mma of 8 cycles over four pipes are 32 SM cycles a warp k-step."""
    found = simulate(program(*[Op("mma")] * 16), M, blocks=2, loops=8)
    assert found.cycles_per_kstep == pytest.approx(32, rel=0.01)
    assert found.tensor_busy == pytest.approx(1, abs=0.01)


def test_blocks_that_start_apart_end_apart() -> None:
    plain = program(*[Op("plain")] * 10)
    together = simulate(plain, M, blocks=2, loops=5)
    apart = simulate(plain, M, blocks=Blocks(at_once=2, in_all=2, stagger_cycles=1000), loops=5)
    assert apart.cycles == pytest.approx(1000 + together.cycles / 2, abs=3)


def test_fractional_mma_interval() -> None:
    found = simulate(program(*[Op("mma")] * 16), replace(M, mma_interval_cycles=6.5), blocks=2, loops=20)
    assert found.cycles_per_kstep == pytest.approx(26, rel=0.01)


def test_scoreboard_waits_for_every_load_that_sets_it() -> None:
    """Two loads on one scoreboard: the mma behind them waits for the later one."""
    first, second = Op("load", wavefronts=1, sets_on_result=0), Op("load", wavefronts=8, sets_on_result=0)
    body = program(first, second, Op("mma", waits_for=(0,)))
    found = simulate(body, M, blocks=1, warps_per_block=1, loops=1)
    assert found.cycles >= M.queue_cycles.load + M.load_latency_cycles + 7 * M.wavefront_latency_cycles


def test_barrier_holds_the_fast_warps_until_the_slow_ones_come() -> None:
    """All warps pass the barrier together, so a pass takes the slow work and the barrier's own cycles."""
    body = program(Op("plain", stall_cycles=15), Op("barrier"))
    found = simulate(body, M, blocks=1, loops=20)
    assert found.cycles / 20 == pytest.approx(15 + 1 + M.barrier_cycles, abs=3)


def test_a_copy_takes_its_latency_and_transfer_and_of_the_port_a_share_for_each_line() -> None:
    """One warp that copies, commits and waits: lines, latency and transfer each time."""
    body = program(Op("copy", lines=4), Op("commit"), Op("wait", argument=0))
    found = simulate(body, M, blocks=1, warps_per_block=1, loops=10)
    transfer = 512 / M.l2_bytes_per_clk
    assert found.cycles / 10 == pytest.approx(4 * M.line_cycles + M.l2_latency_cycles + transfer, abs=6)
    commit_cycles = 1
    assert found.port_busy == pytest.approx(10 * (commit_cycles + 4 * M.port_cycles_per_line) / found.cycles)


def test_a_wait_that_allows_a_pending_group_overlaps_copies() -> None:
    """With one group allowed in flight, each wait is for the copy before the last: half the time."""
    body = program(Op("copy", lines=4), Op("commit"), Op("wait", argument=1))
    all_of_them = program(Op("copy", lines=4), Op("commit"), Op("wait", argument=0))
    overlapped = simulate(body, M, blocks=1, warps_per_block=1, loops=40)
    serial = simulate(all_of_them, M, blocks=1, warps_per_block=1, loops=40)
    assert overlapped.cycles == pytest.approx(serial.cycles / 2, rel=0.05)


def test_l2_bound() -> None:
    """Copies that nobody waits for leave at the L2 rate."""
    body = program(Op("copy", lines=4), Op("commit"), Op("wait", argument=4))
    found = simulate(body, M, blocks=2, loops=60)
    assert found.cycles == pytest.approx(16 * 60 * 512 / M.l2_bytes_per_clk, rel=0.06)


def test_dead_lock_is_told_and_not_waited_for() -> None:
    """A warp that waits for a scoreboard nobody sets goes on; one whose block never fills a barrier is an error."""
    simulate(program(Op("plain", waits_for=(3,))), M, blocks=1)
    with pytest.raises(ValueError, match="at least one"):
        simulate(program(), M, blocks=1)


@st.composite
def bodies(draw: st.DrawFn) -> Program:
    ops = []
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(("plain", "alu", "mma", "load")))
        ops.append(
            Op(
                kind,
                stall_cycles=draw(st.integers(1, 8)),
                wavefronts=draw(st.integers(1, 4)) if kind == "load" else 0,
                sets_on_result=draw(st.none() | st.integers(0, 5)) if kind == "load" else None,
                waits_for=tuple(draw(st.sets(st.integers(0, 5), max_size=2))),
            )
        )
    return program(*ops)


@settings(max_examples=60, deadline=None)
@given(body=bodies(), blocks=st.integers(1, 2))
def test_never_below_any_ceiling(body: Program, blocks: int) -> None:
    """Whatever the program: not faster than its port, its tensor pipes, its schedulers, or its own stalls."""
    loops = 6
    found = simulate(body, M, blocks=blocks, loops=loops)
    warps = 8 * blocks
    assert found.cycles >= warps * loops * body.wavefronts
    assert (
        found.cycles + M.mma_interval_cycles
        >= warps * loops * body.count("mma") * M.mma_interval_cycles / SUB_PARTITIONS
    )
    assert found.cycles >= warps * loops * len(body.ops) / SUB_PARTITIONS - 1
    assert found.cycles + 8 >= loops * sum(op.stall_cycles for op in body.ops)


@settings(max_examples=40, deadline=None)
@given(body=bodies())
def test_slower_machines_are_not_faster(body: Program) -> None:
    """A machine twice as slow in every respect takes at least as long, up to the luck of the schedule (5 %)."""
    slow = replace(
        M,
        mma_interval_cycles=2 * M.mma_interval_cycles,
        load_latency_cycles=2 * M.load_latency_cycles,
        queue_cycles=M.queue_cycles.times(2),
        alu_interval_cycles=2 * M.alu_interval_cycles,
    )
    assert simulate(body, slow, blocks=1, loops=40).cycles >= 0.95 * simulate(body, M, blocks=1, loops=40).cycles


def test_control_bits_of_real_encodings() -> None:
    """Upper words that ptxas wrote for sm_90: `LDSM ... ; st3 w0` and an mma that waits for scoreboards 0 and 2."""
    plain = decode_control(0x000FE20000000800)
    assert (plain.stall_cycles, plain.sets_on_result, plain.sets_on_read, plain.waits_for) == (1, None, None, ())
    sets = decode_control(0x000E220000002100)
    assert (sets.stall_cycles, sets.sets_on_result) == (1, 0)
    waits = decode_control(0x001FE20000011400)
    assert waits.waits_for == (0,)


def test_controls_are_read_from_a_disassembly() -> None:
    text = """
	.section	.text.kernel,"ax",@progbits
        /*0000*/                   S2R R0, SR_TID.X ;                                   /* 0x0000000000007919 */
                                                                                        /* 0x000e220000002100 */
        /*0010*/                   SHF.R.S32.HI R7, RZ, 0x1f, R0 ;                      /* 0x0000001fff077819 */
                                                                                        /* 0x001fe20000011400 */
"""
    found = parse_controls(text)["kernel"]
    assert found[0x0].sets_on_result == 0
    assert found[0x10].waits_for == (0,)
