"""Memory queue, operand reads, the blocks of an SM and who issues next, on programs worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemm.simulator.machine import PerKind, machine
from gemm.simulator.program import Op, Program
from gemm.simulator.simulate import Blocks, Simulation, _Sm, simulate

M = replace(
    machine(80),
    mma_interval_cycles=8,
    load_latency_cycles=20,
    wavefront_latency_cycles=2,
    queue_cycles=PerKind(load=4, blank=4, store=4, copy=8, commit=8),
    queue_depth=12,
    mma_operand_cycles=0,
    alu_operand_cycles=0.5,
    operand_reads=PerKind(load=1, blank=0.5, store=3, copy=4, commit=0.5),
    line_cycles=100,
    port_cycles_per_line=0.25,
    copy_depth=1,
    l2_bytes_per_clk=1e6,
)
LOAD, MMA, PLAIN = Op("load", wavefronts=1), Op("mma"), Op("plain")


def run(*ops: Op, blocks: int | Blocks = 1, warps: int = 8, loops: int = 1) -> Simulation:
    return simulate(Program("test", 80, ops, 1), M, blocks=blocks, warps_per_block=warps, loops=loops)


def test_a_blank_load_takes_its_place_in_the_queue_and_a_cycle_of_the_port() -> None:
    one = run(*[Op("blank")] * 8, warps=1, loops=20)
    assert one.cycles == pytest.approx(20 * 8 * M.queue_cycles.blank, rel=0.03)
    assert one.waits["queue"] > 0.8
    many = run(*[Op("blank")] * 8, blocks=2, loops=10)
    assert many.cycles == pytest.approx(16 * 8 * 10, rel=0.02)
    assert many.port_busy == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("copies", "lines_waited_for"), [(0, 0), (1, 0), (2, 0), (3, 8), (4, 16)])
def test_a_copy_holds_up_loads_only_when_no_more_copies_may_wait(copies: int, lines_waited_for: int) -> None:
    """Eight lines take 800 cycles. One copy is on its way and one waits; a third blocks the queue until then.

    What a copy takes of the queue is hidden where it waits: it reads its operands meanwhile.
    """
    loads = [replace(LOAD, sets_on_result=0)] * 4
    alone, found = run(*loads, warps=1), run(*[Op("copy", lines=8)] * copies, *loads, warps=1)
    queued = 0 if lines_waited_for else copies * (M.queue_cycles.copy + 1)
    expected = alone.cycles + queued + lines_waited_for * M.line_cycles
    assert found.cycles == pytest.approx(expected, abs=M.queue_cycles.copy)
    assert found.port_busy * found.cycles == pytest.approx(4 + copies * 8 * M.port_cycles_per_line)


@pytest.mark.parametrize(
    ("op", "count", "delay_cycles"),
    [
        (LOAD, 4, 1),
        (LOAD, 8, 1),
        (replace(LOAD, addresses=8), 8, 0.25),  # ldmatrix.x1
        (Op("blank"), 8, 0.5),
        (Op("store", wavefronts=1), 4, 3),
        (Op("alu"), 8, 0.5),
    ],
)
def test_operand_reads_delay_mma_that_follow_each_other(op: Op, count: int, delay_cycles: float) -> None:
    """Sixteen mma of 8 cycles, and ``count`` instructions spread among them, two warps per sub-partition."""
    body = [part for i in range(16) for part in ([MMA, op] if i % (16 // count) == 0 else [MMA])]
    found = run(*body, loops=40)
    assert found.cycles == pytest.approx(2 * 40 * (16 * 8 + count * delay_cycles), rel=0.005)


def test_operand_reads_cost_nothing_between_mma_with_gaps() -> None:
    def with_(op: Op) -> float:
        return run(*[replace(MMA, stall_cycles=8), replace(op, stall_cycles=8)] * 4, warps=4, loops=20).cycles

    assert with_(LOAD) == pytest.approx(with_(PLAIN), abs=M.queue_cycles.load)


def test_memory_instructions_keep_out_of_the_first_cycles_of_an_mma() -> None:
    """A load that may start only 6 cycles after the mma issued just before it returns 6 cycles later."""
    body = Program("test", 80, (MMA, replace(LOAD, sets_on_result=0)), 1)
    late = replace(M, mma_operand_cycles=6)
    at_once, waited = (simulate(body, m, blocks=1, warps_per_block=1, loops=1).cycles for m in (M, late))
    assert 4 <= waited - at_once <= 6


@pytest.mark.parametrize(
    ("at_once", "in_all", "cycles"),
    [
        (1, 1, 1000 + 100 + 500),
        (1, 3, 3 * (1000 + 100 + 500)),
        (2, 2, 1000 + 200 + 500),
        (2, 3, (1000 + 100 + 500) + (1000 + 100 + 500)),  # the first ends after 100: its warps go on and are older
        (2, 4, (1000 + 200 + 500) + (1000 + 100 + 500)),
    ],
)
def test_a_slot_takes_the_next_block_when_one_has_ended(at_once: int, in_all: int, cycles: float) -> None:
    """A block alone: 100 cycles of issue, 1000 before and 500 after them, in which others may issue."""
    found = run(*[PLAIN] * 10, blocks=Blocks(at_once, in_all, 0, 1000, 500), loops=5)
    assert found.cycles == pytest.approx(cycles, abs=5)
    assert found.warps == 8 * in_all


def test_the_last_block_of_an_sm_runs_alone() -> None:
    """Where two blocks hide each other's latency, a third takes as long as one that is alone on the SM."""
    chain = [replace(LOAD, sets_on_result=0, waits_for=(0,))]
    one, two, three = (run(*chain, blocks=Blocks(2, count), loops=40).cycles for count in (1, 2, 3))
    assert two < 1.3 * one
    assert three == pytest.approx(two + one, rel=0.05)


def scheduler() -> _Sm:
    """Warps 0 and 4 share sub-partition 0; both are at a plain instruction, and the older issued last."""
    sm = _Sm((PLAIN, LOAD), M, Blocks(1, 1), warps_per_block=5, loops=2)
    older, younger = sm.by_smsp[0]
    older.issued_at, younger.issued_at = 9.0, 3.0
    return sm


def test_the_oldest_goes_first() -> None:
    sm = scheduler()
    assert sm.pick(0, 10.0)[0] is sm.by_smsp[0][0]


@pytest.mark.parametrize("hindrance", ["not ready", "parked", "a load"])
def test_a_younger_warp_issues_where_the_oldest_cannot_or_needs_a_place_in_the_queue(hindrance: str) -> None:
    sm = scheduler()
    older, younger = sm.by_smsp[0]
    if hindrance == "not ready":
        older.ready = 15.0
    elif hindrance == "parked":
        older.parked = True
    else:
        older.pc = 1
    assert sm.pick(0, 10.0)[0] is younger


def test_places_in_the_queue_go_round() -> None:
    sm = scheduler()
    older, younger = sm.by_smsp[0]
    older.pc = younger.pc = 1
    assert sm.pick(0, 10.0)[0] is younger
    younger.issued_at = 10.0
    assert sm.pick(0, 11.0)[0] is older
    older.ready, younger.ready = 20.0, 17.0
    assert sm.pick(0, 11.0) == (None, 17.0, "stall")


def test_lines_of_copies_take_the_port_from_loads() -> None:
    """12 wavefronts of loads and 4 lines a pass: the port's 12 cycles, and 4 times what a line takes of it."""
    machine = replace(M, port_cycles_per_line=0.5, line_cycles=0.1)
    ops = [replace(LOAD, wavefronts=4)] * 3 + [Op("copy", lines=4)]
    found = simulate(Program("test", 80, tuple(ops), 1), machine, blocks=2, loops=30)
    without = simulate(Program("test", 80, tuple(ops), 1), replace(machine, port_cycles_per_line=0), blocks=2, loops=30)
    assert found.port_busy > 0.95 < without.port_busy
    assert found.cycles_per_kstep == pytest.approx(12 + 4 * 0.5, rel=0.02)
    assert without.cycles_per_kstep == pytest.approx(12, rel=0.02)
