"""How many cycles do the warps of one SM take for a loop, if ptxas' schedule meets four schedulers and one port?

Per cycle each sub-partition issues one instruction of one of its warps, if its stall count has run out, its
scoreboards are clear and the pipe, or a place in the memory queue, is free. Cycles in which nothing can happen are
skipped. The trap: a warp that waits for a queued load waits for a time that nobody knows yet, so its sub-partition
sleeps until it is woken.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from gemm.simulator.machine import Machine
from gemm.simulator.memory import NEVER, Group, Memory, Warp
from gemm.simulator.operands import Operands
from gemm.simulator.program import Op, Program
from gemm.simulator.step import Step
from micro.gpu.limits import SUB_PARTITIONS

_OPERANDS_HELD_CYCLES = 8  # by an instruction outside the memory queue that signals its operands as read


@dataclass(frozen=True)
class Simulation:
    """What a simulated run took, and how busy each resource was (shares of the cycles, 0..1)."""

    cycles: float
    loops: int
    warps: int
    ksteps: int  # of one loop
    tensor_busy: float
    port_busy: float
    issue_busy: float
    waits: dict[str, float] = field(default_factory=dict)  # reason -> share of the schedulers' idle cycles

    @property
    def cycles_per_kstep(self) -> float:
        """SM cycles per warp k-step."""
        return self.cycles / (self.loops * self.warps * self.ksteps)


@dataclass(frozen=True)
class Blocks:
    """The blocks of one SM. A slot that becomes free takes the next until ``in_all`` have run.

    The first ones start ``stagger_cycles`` apart. ``before_cycles`` and ``after_cycles``: a block in its slot before
    its first loop (first tiles) and after its last (results to memory), in which it uses none of the simulated units.
    """

    at_once: int
    in_all: int
    stagger_cycles: float = 0
    before_cycles: float = 0
    after_cycles: float = 0


class _Sm:
    """The state of one SM; ``run`` returns when every warp has done its loops."""

    def __init__(self, ops: tuple[Op, ...], machine: Machine, blocks: Blocks, warps_per_block: int, loops: int) -> None:
        self.m, self.loops, self.warps_per_block, self.blocks = machine, loops, warps_per_block, blocks
        known = {op: Step(op, machine) for op in ops}
        self.steps = [known[op] for op in ops]
        self.by_block: list[list[Warp]] = []
        self.by_smsp: list[list[Warp]] = [[] for _ in range(SUB_PARTITIONS)]
        self.wake = [NEVER] * SUB_PARTITIONS
        self.operands = Operands(machine)
        self.memory = Memory(machine, self.operands, self.wake)
        self.interval = {"alu": machine.alu_interval_cycles, "fma": machine.alu_interval_cycles, "uniform": 1.0}
        self.pipe_free = [dict.fromkeys(self.interval, 0.0) for _ in range(SUB_PARTITIONS)]
        self.arrived = [0] * blocks.in_all
        self.live = 0  # warps
        self.end = self.tensor_cycles = 0.0
        self.issued = 0
        self.idle: dict[str, float] = defaultdict(float)
        for block in range(min(blocks.at_once, blocks.in_all)):
            self.start(blocks.before_cycles + block * blocks.stagger_cycles)

    def start(self, when: float) -> None:
        """The next block becomes resident; its warps issue from ``when`` on."""
        block = len(self.by_block)
        self.by_block.append([Warp(block, warp % SUB_PARTITIONS, when) for warp in range(self.warps_per_block)])
        self.live += self.warps_per_block
        for warp in self.by_block[block]:
            self.by_smsp[warp.smsp].append(warp)
            self.wake[warp.smsp] = min(self.wake[warp.smsp], when)

    def earliest(self, warp: Warp, full: bool) -> tuple[float, str]:
        """When the warp can issue as far as is known (never: it will be woken), and what it waits for.

        ``full``: its sub-partition's memory queue has no place.
        """
        if warp.parked:
            return NEVER, "barrier"
        step = self.steps[warp.pc]
        when, why = warp.ready, "stall"
        for scoreboard in step.waits_for:
            if warp.pending[scoreboard]:
                return NEVER, "scoreboard"
            if warp.result_at[scoreboard] > when:
                when, why = warp.result_at[scoreboard], "scoreboard"
        if step.queued:
            return (NEVER, "queue") if full else (when, why)
        kind = step.kind
        if kind == "mma":
            free = self.operands.mma_at(warp.smsp)
            if free > when:
                when, why = free, "tensor"
        elif kind in self.interval:
            free = self.pipe_free[warp.smsp][kind]
            if free > when:
                when, why = free, "pipe"
        elif kind == "wait":
            while warp.groups and not warp.groups[0].copies and warp.groups[0].done <= warp.ready:
                warp.groups.popleft()
            for group in list(warp.groups)[: max(0, len(warp.groups) - step.argument)]:
                if group.copies:
                    return NEVER, "copies"
                if group.done > when:
                    when, why = group.done, "copies"
        return when, why

    def issue(self, warp: Warp, now: float) -> None:
        step = self.steps[warp.pc]
        self.issued += 1
        warp.issued_at = now
        warp.ready = now + step.stall_cycles
        if step.queued:
            if step.kind == "commit":
                warp.groups.append(warp.open_group or Group())
                warp.open_group = None
            self.memory.enqueue(warp, step, now)
        else:
            self.elsewhere(warp, step, now)
        warp.pc += 1
        if warp.pc == len(self.steps):
            self.pass_ends(warp, now)

    def pass_ends(self, warp: Warp, now: float) -> None:
        """The warp begins its next loop; after its last, and with it the last of its block, a slot becomes free."""
        warp.pc = 0
        warp.loops += 1
        if warp.loops == self.loops:
            self.by_smsp[warp.smsp] = [w for w in self.by_smsp[warp.smsp] if w is not warp]
            self.live -= 1
            self.end = max(self.end, warp.ready + self.blocks.after_cycles, *warp.result_at)
            block_is_done = all(w.loops == self.loops for w in self.by_block[warp.block])
            if block_is_done and len(self.by_block) < self.blocks.in_all:
                self.start(now + self.blocks.after_cycles + self.blocks.before_cycles)

    def elsewhere(self, warp: Warp, step: Step, now: float) -> None:
        """What an instruction outside the memory queue does."""
        kind = step.kind
        if kind in self.interval:
            pipes = self.pipe_free[warp.smsp]
            pipes[kind] = (pipes[kind] if pipes[kind] > now - 1 else now) + self.interval[kind]
            if kind != "uniform":
                self.operands.alu(warp.smsp, now)
        elif kind == "mma":
            self.operands.mma(warp.smsp, now)
            self.tensor_cycles += self.m.mma_interval_cycles
        elif kind == "barrier":
            warp.parked = True
            self.arrived[warp.block] += 1
            if self.arrived[warp.block] == self.warps_per_block:
                self.release(warp.block, now)
        elif step.sets_on_result is not None:
            arrives = now + self.m.other_latency_cycles
            warp.result_at[step.sets_on_result] = max(warp.result_at[step.sets_on_result], arrives)
        if step.sets_on_read is not None:
            read = now + _OPERANDS_HELD_CYCLES
            warp.result_at[step.sets_on_read] = max(warp.result_at[step.sets_on_read], read)

    def release(self, block: int, now: float) -> None:
        self.arrived[block] = 0
        for warp in self.by_block[block]:
            if warp.parked:
                warp.parked = False
                warp.ready = max(warp.ready, now + self.m.barrier_cycles)
                self.wake[warp.smsp] = min(self.wake[warp.smsp], warp.ready)

    def pick(self, s: int, now: float) -> tuple[Warp | None, float, str]:
        """The warp that sub-partition ``s`` issues now, else None and when to look again and why not.

        The oldest whose next instruction needs no place in the memory queue; else a place goes to the warp that has
        issued nothing for longest. Chosen with the GEMM's measurements in view: contention and copies with reads hardly
        tell such rules apart, and the one that lets the last warp go on made the GEMM's ldmatrix kernels too fast.
        """
        again, why = NEVER, ""
        in_turn: Warp | None = None
        full = self.memory.full(s)
        for warp in self.by_smsp[s]:
            step = self.steps[warp.pc]
            # Most warps can be passed over without asking: they would change nothing of what is found so far.
            if in_turn is not None:
                if warp.ready > now or warp.parked or (step.queued and warp.issued_at >= in_turn.issued_at):
                    continue
            elif why and (warp.ready >= again or warp.parked or (full and step.queued)):
                continue
            when, reason = self.earliest(warp, full)
            if when <= now:
                if not step.queued:
                    return warp, now, ""
                if in_turn is None or warp.issued_at < in_turn.issued_at:
                    in_turn = warp
            elif when < again or not why:
                again, why = when, reason
        return (None, again, why) if in_turn is None else (in_turn, now, "")

    def run(self) -> float:
        """Cycles until every warp has done its loops and the port has served what they left."""
        now, memory, wake = 0.0, self.memory, self.wake
        issued_until = [0.0] * SUB_PARTITIONS
        reason = [""] * SUB_PARTITIONS  # why a sub-partition has issued nothing since, as last seen
        while self.live or memory.busy:
            if memory.next <= now:
                memory.serve(now)
            for s in range(SUB_PARTITIONS):
                if wake[s] > now:
                    continue
                warp, later, why = self.pick(s, now)
                if warp is None:
                    wake[s], reason[s] = later, why
                    continue
                self.idle[reason[s]] += now - issued_until[s]
                issued_until[s], reason[s] = now + 1, ""
                self.issue(warp, now)
                wake[s] = now + 1
            again = min(*wake, memory.next)
            if again == NEVER:
                if not self.live:
                    break
                raise RuntimeError("simulator: every warp waits for something that nobody will bring")
            now = now + 1 if again <= now + 1 else float(math.ceil(again))
        return max(self.end, memory.served_until)


def simulate(
    program: Program, machine: Machine, *, blocks: int | Blocks, warps_per_block: int = 8, loops: int = 8
) -> Simulation:
    """Run ``loops`` passes of ``program`` in each of the ``blocks`` of one SM (a number: all resident at once).

    The warps of a block start together. Raises ValueError for an empty program or no warps.
    """
    if isinstance(blocks, int):
        blocks = Blocks(at_once=blocks, in_all=blocks)
    if not program.ops or min(blocks.at_once, blocks.in_all, warps_per_block, loops) < 1:
        raise ValueError("a simulation needs instructions, at least one block, warp and loop")
    sm = _Sm(program.ops, machine, blocks, warps_per_block, loops)
    cycles = sm.run()
    idle = sum(sm.idle.values()) or 1
    return Simulation(
        cycles=cycles,
        loops=loops,
        warps=blocks.in_all * warps_per_block,
        ksteps=program.ksteps,
        tensor_busy=sm.tensor_cycles / (SUB_PARTITIONS * cycles),
        port_busy=sm.memory.port_cycles / cycles,
        issue_busy=sm.issued / (SUB_PARTITIONS * cycles),
        waits={why: share / idle for why, share in sorted(sm.idle.items()) if share},
    )
