"""When is an access to shared memory served? Four queues, one address stage, one data port, and copies from L2.

An access leaves its sub-partition's queue for the SM's address stage, which takes a cycle for each 128-byte line: one
for shared memory, as many as its rows for a copy from global memory. It then waits for the port, which moves one
wavefront a cycle; a copy goes to L2 instead and needs the port when it comes back. All stages are in order. The trap:
the time of a result is known only once its access reaches the port, so until then a warp counts it as pending.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator

from gemm.explain.machine import SUB_PARTITIONS, Machine
from gemm.explain.program import SCOREBOARDS, Op

__all__ = ["COPY_BYTES", "NEVER", "Group", "Memory", "Warp"]

NEVER = float("inf")
COPY_BYTES = 512  # of one warp-wide instruction: 32 lanes of 16 bytes
_TO_PORT_CYCLES = 2  # queue and address stage of an access that waits for nobody; part of the measured latency
_GLOBAL = ("copy", "global")


class Group:
    """A committed group of copies: how many are under way, and when the last known one was stored."""

    __slots__ = ("copies", "done")

    def __init__(self) -> None:
        self.copies, self.done = 0, 0.0


class Warp:
    """One warp: where it is, when it may issue, and what it has under way."""

    __slots__ = ("block", "groups", "loops", "open_group", "parked", "pc", "pending", "ready", "result_at", "smsp")

    def __init__(self, block: int, smsp: int, start: float) -> None:
        self.block, self.smsp = block, smsp
        self.pc = self.loops = 0
        self.ready = start
        self.parked = False  # at a barrier
        self.pending = [0] * SCOREBOARDS  # results whose time is not known yet
        self.result_at = [0.0] * SCOREBOARDS  # when the last known one arrives
        self.open_group: Group | None = None
        self.groups: deque[Group] = deque()

    def arrives(self, scoreboard: int | None, when: float) -> None:
        """A pending result has been served: its time is known."""
        if scoreboard is not None:
            self.pending[scoreboard] -= 1
            self.result_at[scoreboard] = max(self.result_at[scoreboard], when)


_Access = tuple[Warp, Op, Group | None]


class Memory:
    """Shared memory of one SM and its way to L2. ``wake`` [sub-partition] is when it must be looked at again.

    ``operands_free`` [sub-partition]: operands of memory instructions and of mma are read by turns.
    """

    def __init__(self, machine: Machine, wake: list[float]) -> None:
        self.m, self.wake = machine, wake
        self.queues: list[deque[_Access]] = [deque() for _ in range(SUB_PARTITIONS)]
        self.queue_free = [0.0] * SUB_PARTITIONS
        self.operands_free = [0.0] * SUB_PARTITIONS
        self.addressed: deque[_Access] = deque()
        self.for_port: deque[tuple[float, Warp, Op]] = deque()
        self.incoming: list[tuple[float, int, Warp, int, Group]] = []  # copies by arrival from L2
        self.address_free = self.port_free = self.l2_free = 0.0
        self.turn = self.requests = 0
        self.port_cycles = 0.0

    @property
    def busy(self) -> bool:
        """Something is queued or on its way."""
        return bool(self.incoming or self.addressed or self.for_port) or any(self.queues)

    def full(self, smsp: int) -> bool:
        """No place in the sub-partition's queue."""
        return len(self.queues[smsp]) >= self.m.queue_depth

    def enqueue(self, warp: Warp, op: Op) -> None:
        """Take an instruction that was just issued."""
        group = None
        if op.kind == "copy":
            group = warp.open_group = warp.open_group or Group()
            group.copies += 1
        for scoreboard in (op.sets_on_result, op.sets_on_read):
            if scoreboard is not None:
                warp.pending[scoreboard] += 1
        self.queues[warp.smsp].append((warp, op, group))

    def next_time(self, smsp: int, now: float) -> float:
        """When the sub-partition's queue can next be served, as far as is known."""
        return max(self.queue_free[smsp], self.operands_free[smsp], now + 1) if self.queues[smsp] else NEVER

    def serve(self, now: float) -> float:
        """Move everything on that can move at ``now``, last stage first; returns when to look again."""
        self._port(now)
        self._address(now)
        self._leave_queues(now)
        return min(self._next_times(now), default=NEVER)

    def _next_times(self, now: float) -> Iterator[float]:
        """When each stage can next move; a stage that waits for the one after it moves when that one does."""
        if self.for_port:
            yield max(self.port_free, self.for_port[0][0], now + 1)
        if self.addressed and not self._port_is_full(self.addressed[0][1]):
            yield max(self.address_free, now + 1)
        if len(self.addressed) < self.m.stage_depth:
            yield from (self.next_time(s, now) for s in range(SUB_PARTITIONS))
        if self.incoming:
            yield max(self.incoming[0][0], self.port_free)

    def _port_is_full(self, op: Op) -> bool:
        return op.kind not in _GLOBAL and len(self.for_port) >= self.m.stage_depth

    def _hold_port(self, wavefronts: int, now: float) -> None:
        cycles = wavefronts / self.m.wavefronts_per_cycle
        self.port_free = max(self.port_free, now) + cycles
        self.port_cycles += cycles

    def _port(self, now: float) -> None:
        """Arriving copies first, then accesses in order."""
        while self.port_free <= now:
            if self.incoming and self.incoming[0][0] <= now:
                _, _, warp, wavefronts, group = heapq.heappop(self.incoming)
                self._hold_port(wavefronts, now)
                group.copies -= 1
                group.done = max(group.done, self.port_free)
            elif self.for_port and self.for_port[0][0] <= now:
                _, warp, op = self.for_port.popleft()
                self._hold_port(op.wavefronts, now)
                more = self.m.wavefront_latency_cycles * (op.wavefronts - 1)
                warp.arrives(op.sets_on_result, now - _TO_PORT_CYCLES + self.m.load_latency_cycles + more)
            else:
                return
            self.wake[warp.smsp] = min(self.wake[warp.smsp], now)

    def _address(self, now: float) -> None:
        while self.addressed and self.address_free <= now:
            warp, op, group = self.addressed[0]
            if self._port_is_full(op):
                return
            self.addressed.popleft()
            cycles = max(1.0, op.lines / self.m.lines_per_cycle)
            self.address_free = (self.address_free if self.address_free > now - 1 else now) + cycles
            if op.kind not in _GLOBAL:
                self.for_port.append((now + 1, warp, op))
                continue
            transfer = COPY_BYTES / self.m.l2_bytes_per_clk
            self.l2_free = max(self.address_free, self.l2_free) + transfer
            arrival = self.l2_free + self.m.l2_latency_cycles
            if group is None:
                warp.arrives(op.sets_on_result, arrival)
            else:
                warp.arrives(op.sets_on_result, self.address_free)
                self.requests += 1
                heapq.heappush(self.incoming, (arrival, self.requests, warp, op.wavefronts, group))
            self.wake[warp.smsp] = min(self.wake[warp.smsp], now)

    def _leave_queues(self, now: float) -> None:
        """Sub-partitions take turns; each gives an access a ``load_interval_cycles``, or as fast as it takes results.

        A wavefront adds 2 cycles to the latency of an access and 2 to the time between accesses of one warp, but 1 to
        those of the SM (instruction benchmark on H200): a sub-partition takes a wavefront every other cycle.
        """
        for k in range(SUB_PARTITIONS):
            s = (self.turn + k) % SUB_PARTITIONS
            if len(self.addressed) >= self.m.stage_depth:
                return
            if not self.queues[s] or self.queue_free[s] > now or self.operands_free[s] > now:
                continue
            access = self.queues[s].popleft()
            self.turn = s + 1
            result = self.m.wavefront_latency_cycles * access[1].wavefronts if access[1].kind == "load" else 0.0
            self.queue_free[s] = now + max(self.m.load_interval_cycles, result)
            self.operands_free[s] = now + self.m.load_operand_cycles
            access[0].arrives(access[1].sets_on_read, now + self.m.load_operand_cycles)
            self.addressed.append(access)
            self.wake[s] = min(self.wake[s], now)
