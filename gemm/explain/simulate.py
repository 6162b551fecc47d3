"""How many cycles do the warps of one SM take for a loop, if ptxas' schedule meets four schedulers and one port?

Per cycle each sub-partition issues one instruction of one of its warps, if its stall count has run out, its
scoreboards are clear and the pipe is free. Loads, stores and copies wait in the sub-partition's queue for its address
unit and for the SM's port, which moves one wavefront a cycle; copies come back from L2 as stores. Cycles in which
nothing can happen are skipped. The trap: a warp that waits for a queued load waits for a time that nobody knows yet,
so it sleeps until it is woken.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gemm.explain.machine import SUB_PARTITIONS, Machine
from gemm.explain.program import SCOREBOARDS, Op, Program

__all__ = ["Simulation", "simulate"]

_NEVER = float("inf")
_COPY_BYTES = 512  # 32 lanes of 16 bytes
_KINDS = (
    "plain",
    "alu",
    "fma",
    "uniform",
    "mma",
    "load",
    "store",
    "copy",
    "global",
    "commit",
    "wait",
    "barrier",
    "other",
)
_PLAIN, _ALU, _FMA, _UNIFORM, _MMA, _LOAD, _STORE, _COPY, _GLOBAL, _COMMIT, _WAIT, _BARRIER, _OTHER = range(len(_KINDS))
_QUEUED = (_LOAD, _STORE, _COPY, _GLOBAL)
_PIPES = {_ALU: 0, _FMA: 1, _UNIFORM: 2, _MMA: 3}


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
    l2_busy: float
    waits: dict[str, float] = field(default_factory=dict)  # reason -> share of the schedulers' idle cycles

    @property
    def cycles_per_kstep(self) -> float:
        """SM cycles per warp k-step."""
        return self.cycles / (self.loops * self.warps * self.ksteps)

    @property
    def cycles_per_loop(self) -> float:
        """SM cycles of one pass of all warps."""
        return self.cycles / self.loops


class _Warp:
    __slots__ = ("block", "groups", "loops", "parked", "pc", "pending", "ready", "sb_time", "smsp", "uncommitted")

    def __init__(self, block: int, smsp: int) -> None:
        self.block, self.smsp = block, smsp
        self.pc = self.loops = 0
        self.ready: float = 0
        self.pending = [0] * SCOREBOARDS  # results under way whose time is not known yet
        self.sb_time = [0.0] * SCOREBOARDS  # when the last known one arrives
        self.parked = False
        self.uncommitted: list[_Group] = []
        self.groups: deque[_Group] = deque()


class _Group:
    __slots__ = ("closed", "copies", "done")

    def __init__(self) -> None:
        self.copies, self.done, self.closed = 0, 0.0, False


class _Sm:
    """The state of one SM; ``run`` returns when every warp has done its loops."""

    def __init__(self, ops: Sequence[Op], machine: Machine, blocks: int, warps_per_block: int, loops: int) -> None:
        self.m, self.loops = machine, loops
        self.code = [
            (
                _KINDS.index(op.kind),
                op.stall_cycles,
                op.sets_on_result,
                op.sets_on_read,
                op.waits_for,
                op.wavefronts,
                op.argument,
            )
            for op in ops
        ]
        self.warps = [_Warp(block, warp % SUB_PARTITIONS) for block in range(blocks) for warp in range(warps_per_block)]
        self.by_smsp = [[w for w in self.warps if w.smsp == s] for s in range(SUB_PARTITIONS)]
        self.warps_per_block = warps_per_block
        self.arrived = [0] * blocks
        self.pipe_free = [[0.0] * 4 for _ in range(SUB_PARTITIONS)]
        self.interval = [machine.alu_interval_cycles, machine.alu_interval_cycles, 1.0, machine.mma_interval_cycles]
        self.queues: list[deque[tuple[_Warp, int, _Group | None]]] = [deque() for _ in range(SUB_PARTITIONS)]
        self.address_free = [0.0] * SUB_PARTITIONS
        self.port_free = 0.0
        self.port_turn = 0
        self.l2_free = 0.0
        self.incoming: list[tuple[float, int, _Warp, int, _Group]] = []  # copies on their way from L2
        self.arrivals = 0
        self.wake: list[float] = [0.0] * SUB_PARTITIONS
        self.last: list[_Warp | None] = [None] * SUB_PARTITIONS
        self.issued = 0
        self.port_cycles = self.tensor_cycles = self.l2_cycles = 0.0
        self.live = len(self.warps)
        self.end = 0.0
        self.idle: dict[str, float] = {}

    # --- shared memory ---------------------------------------------------------------------------------------------

    def port(self, now: float) -> float:
        """Serve what the port can take at ``now``; returns when it next can do something, if known."""
        while self.port_free <= now:
            if self.incoming and self.incoming[0][0] <= now:
                _, _, warp, wavefronts, group = heapq.heappop(self.incoming)
                start = max(self.port_free, now)
                self.port_free = start + wavefronts
                self.port_cycles += wavefronts
                group.copies -= 1
                group.done = max(group.done, self.port_free)
                self.wake[warp.smsp] = min(self.wake[warp.smsp], now)
                continue
            if not self.serve_one(now):
                break
        known = [self.address_free[s] for s in range(SUB_PARTITIONS) if self.queues[s]]
        if self.incoming:
            known.append(self.incoming[0][0])
        return max(self.port_free, min(known)) if known else _NEVER

    def serve_one(self, now: float) -> bool:
        for k in range(SUB_PARTITIONS):
            s = (self.port_turn + k) % SUB_PARTITIONS
            queue = self.queues[s]
            if not queue or self.address_free[s] > now:
                continue
            warp, at, group = queue.popleft()
            kind, _, result, read, _, wavefronts, _ = self.code[at]
            self.port_turn = s + 1
            self.address_free[s] = now + self.m.load_interval_cycles
            if kind in (_COPY, _GLOBAL):
                self.l2_free = max(now, self.l2_free) + _COPY_BYTES / self.m.l2_bytes_per_clk
                self.l2_cycles += _COPY_BYTES / self.m.l2_bytes_per_clk
                arrival = self.l2_free + self.m.l2_latency_cycles
            if kind == _GLOBAL:
                done = arrival
            elif kind == _COPY:
                assert group is not None
                self.arrivals += 1
                heapq.heappush(self.incoming, (arrival, self.arrivals, warp, wavefronts, group))
                done = now + self.m.load_interval_cycles
            else:
                self.port_free = max(self.port_free, now) + wavefronts
                self.port_cycles += wavefronts
                done = now + self.m.load_latency_cycles + self.m.wavefront_latency_cycles * (wavefronts - 1)
            if result is not None:
                self.arrive(warp, result, done)
            if read is not None:
                self.arrive(warp, read, now + 2)
            self.wake[s] = min(self.wake[s], now)
            return True
        return False

    @staticmethod
    def arrive(warp: _Warp, scoreboard: int, when: float) -> None:
        warp.pending[scoreboard] -= 1
        warp.sb_time[scoreboard] = max(warp.sb_time[scoreboard], when)

    # --- issue -----------------------------------------------------------------------------------------------------

    def earliest(self, warp: _Warp) -> tuple[float, str]:
        """When the warp's next instruction can issue as far as is known (never: it is woken), and what it waits for."""
        if warp.parked:
            return _NEVER, "barrier"
        kind, _, _, _, waits, _, argument = self.code[warp.pc]
        when, why = warp.ready, "stall"
        for scoreboard in waits:
            if warp.pending[scoreboard]:
                return _NEVER, "scoreboard"
            if warp.sb_time[scoreboard] > when:
                when, why = warp.sb_time[scoreboard], "scoreboard"
        if kind in _PIPES:
            free = self.pipe_free[warp.smsp][_PIPES[kind]]
            if free > when:
                when, why = free, "tensor" if kind == _MMA else "pipe"
        elif kind in _QUEUED:
            if len(self.queues[warp.smsp]) >= self.m.queue_depth:
                return _NEVER, "queue"
        elif kind == _WAIT:
            while warp.groups and warp.groups[0].copies == 0 and warp.groups[0].done <= warp.ready:
                warp.groups.popleft()
            for group in list(warp.groups)[: max(0, len(warp.groups) - argument)]:
                if group.copies:
                    return _NEVER, "copies"
                if group.done > when:
                    when, why = group.done, "copies"
        return when, why

    def issue(self, warp: _Warp, now: float) -> None:
        at = warp.pc
        kind, stall, result, read, _, _, _ = self.code[at]
        smsp = warp.smsp
        self.issued += 1
        warp.ready = now + max(1, stall)
        if kind in _PIPES:
            pipe = _PIPES[kind]
            free = self.pipe_free[smsp][pipe]
            # Issue is in whole cycles; the fraction of an interval is owed to the next.
            self.pipe_free[smsp][pipe] = (free if free > now - 1 else now) + self.interval[pipe]
            if kind == _MMA:
                self.tensor_cycles += self.interval[pipe]
        elif kind in _QUEUED:
            group = None
            if kind == _COPY:
                if not warp.uncommitted:
                    warp.uncommitted.append(_Group())
                group = warp.uncommitted[0]
                group.copies += 1
            self.queues[smsp].append((warp, at, group))
            for scoreboard in (result, read):
                if scoreboard is not None:
                    warp.pending[scoreboard] += 1
        elif kind == _COMMIT:
            warp.groups.append(warp.uncommitted.pop() if warp.uncommitted else _Group())
        elif kind == _BARRIER:
            self.arrived[warp.block] += 1
            warp.parked = True
            if self.arrived[warp.block] == self.warps_per_block:
                self.release(warp.block, now)
        elif result is not None:
            warp.sb_time[result] = max(warp.sb_time[result], now + self.m.other_latency_cycles)
        if read is not None and kind not in _QUEUED:
            warp.sb_time[read] = max(warp.sb_time[read], now + 8)
        warp.pc += 1
        if warp.pc == len(self.code):
            warp.pc = 0
            warp.loops += 1
            if warp.loops == self.loops:
                self.by_smsp[smsp] = [w for w in self.by_smsp[smsp] if w is not warp]
                self.live -= 1
                self.end = max(self.end, warp.ready, *warp.sb_time)

    def release(self, block: int, now: float) -> None:
        self.arrived[block] = 0
        for warp in self.warps:
            if warp.block == block and warp.parked:
                warp.parked = False
                warp.ready = max(warp.ready, now + self.m.barrier_cycles)
                self.wake[warp.smsp] = min(self.wake[warp.smsp], warp.ready)

    def pick(self, s: int, now: float) -> tuple[_Warp | None, float, str]:
        """The warp that sub-partition ``s`` issues now by its policy, else None and when to look again and why not."""
        warps = self.by_smsp[s]
        last = self.last[s]
        if last is not None and self.m.policy != "oldest" and last.loops < self.loops:
            if self.m.policy == "greedy_oldest":
                if self.earliest(last)[0] <= now:
                    return last, now, ""
            else:
                turn = warps.index(last) + 1
                warps = warps[turn:] + warps[:turn]
        again, why = _NEVER, "done"
        for warp in warps:
            when, reason = self.earliest(warp)
            if when <= now:
                return warp, now, ""
            if when < again or why == "done":
                again, why = when, reason
        return None, again, why

    def run(self) -> float:
        """Cycles until every warp has done its loops and the port has served what they left."""
        now = 0.0
        issued_until = [0.0] * SUB_PARTITIONS
        reason = [""] * SUB_PARTITIONS  # why a sub-partition has issued nothing since, as last seen
        while self.live or self.incoming or any(self.queues):
            port_next = self.port(now)
            for s in range(SUB_PARTITIONS):
                if self.wake[s] > now:
                    continue
                warp, again, why = self.pick(s, now)
                if warp is None:
                    self.wake[s] = again
                    reason[s] = why
                    continue
                if reason[s]:
                    self.idle[reason[s]] = self.idle.get(reason[s], 0) + now - issued_until[s]
                    reason[s] = ""
                issued_until[s] = now + 1
                self.issue(warp, now)
                self.last[s] = warp
                self.wake[s] = now + 1
                if self.queues[s]:
                    port_next = min(port_next, max(self.port_free, self.address_free[s], now + 1))
            step = min(min(self.wake), port_next)
            if step == _NEVER:
                if not self.live:
                    break
                raise RuntimeError("simulator: every warp waits for something that nobody will bring")
            now = max(now + 1, float(-(-step // 1)))
        return max(self.end, self.port_free)


def simulate(
    program: Program, machine: Machine, *, blocks: int, warps_per_block: int = 8, loops: int = 8
) -> Simulation:
    """Run ``loops`` passes of ``program`` on ``blocks`` blocks of one SM; all warps start together.

    Raises ValueError for an empty program or no warps.
    """
    if not program.ops or blocks < 1 or warps_per_block < 1 or loops < 1:
        raise ValueError("a simulation needs instructions, at least one block, warp and loop")
    sm = _Sm(program.ops, machine, blocks, warps_per_block, loops)
    cycles = sm.run()
    idle = sum(sm.idle.values()) or 1
    return Simulation(
        cycles=cycles,
        loops=loops,
        warps=blocks * warps_per_block,
        ksteps=program.ksteps,
        tensor_busy=sm.tensor_cycles / (SUB_PARTITIONS * cycles),
        port_busy=sm.port_cycles / cycles,
        issue_busy=sm.issued / (SUB_PARTITIONS * cycles),
        l2_busy=sm.l2_cycles / cycles,
        waits={why: count / idle for why, count in sorted(sm.idle.items())},
    )
