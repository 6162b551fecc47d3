"""When is an access to shared memory served? Queues of four sub-partitions, the SM's one port, and copies from L2.

A sub-partition's address unit takes one instruction every ``load_interval_cycles``; the port moves one wavefront a
cycle, whoever asks; a copy leaves for L2, comes back at L2's rate after its latency, and needs the port again to be
stored. Sub-partitions take turns, arriving copies go first. The trap: the time of a result is known only once its
access is served, so until then a warp counts it as pending.
"""

from __future__ import annotations

import heapq
from collections import deque

from gemm.explain.machine import SUB_PARTITIONS, Machine
from gemm.explain.program import SCOREBOARDS, Op

__all__ = ["COPY_BYTES", "NEVER", "Group", "Memory", "Warp"]

NEVER = float("inf")
COPY_BYTES = 512  # of one warp-wide instruction: 32 lanes of 16 bytes
_OPERANDS_READ_CYCLES = 2


class Group:
    """A committed group of copies: how many are under way, and when the last known one was stored."""

    __slots__ = ("copies", "done")

    def __init__(self) -> None:
        self.copies, self.done = 0, 0.0


class Warp:
    """One warp: where it is, when it may issue, and what it has under way."""

    __slots__ = ("block", "groups", "loops", "open_group", "parked", "pc", "pending", "ready", "result_at", "smsp")

    def __init__(self, block: int, smsp: int) -> None:
        self.block, self.smsp = block, smsp
        self.pc = self.loops = 0
        self.ready = 0.0
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


class Memory:
    """Shared memory of one SM and its way to L2. ``wake`` [sub-partition] is when it must be looked at again."""

    def __init__(self, machine: Machine, wake: list[float]) -> None:
        self.m, self.wake = machine, wake
        self.queues: list[deque[tuple[Warp, Op, Group | None]]] = [deque() for _ in range(SUB_PARTITIONS)]
        self.address_free = [0.0] * SUB_PARTITIONS
        self.port_free = self.l2_free = 0.0
        self.turn = 0
        self.incoming: list[tuple[float, int, Warp, int, Group]] = []  # by arrival from L2
        self.requests = 0
        self.port_cycles = self.l2_cycles = 0.0

    @property
    def busy(self) -> bool:
        """Something is queued or on its way."""
        return bool(self.incoming) or any(self.queues)

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
        return max(self.port_free, self.address_free[smsp], now + 1) if self.queues[smsp] else NEVER

    def serve(self, now: float) -> float:
        """Serve what the port can take at ``now``; returns when it next can take something."""
        while self.port_free <= now:
            if self.incoming and self.incoming[0][0] <= now:
                _, _, warp, wavefronts, group = heapq.heappop(self.incoming)
                self.port_free = max(self.port_free, now) + wavefronts
                self.port_cycles += wavefronts
                group.copies -= 1
                group.done = max(group.done, self.port_free)
                self.wake[warp.smsp] = min(self.wake[warp.smsp], now)
            elif not self._serve_queue(now):
                break
        known = [self.address_free[s] for s in range(SUB_PARTITIONS) if self.queues[s]]
        if self.incoming:
            known.append(self.incoming[0][0])
        return max(self.port_free, min(known)) if known else NEVER

    def _serve_queue(self, now: float) -> bool:
        for k in range(SUB_PARTITIONS):
            s = (self.turn + k) % SUB_PARTITIONS
            if not self.queues[s] or self.address_free[s] > now:
                continue
            warp, op, group = self.queues[s].popleft()
            self.turn = s + 1
            self.address_free[s] = now + self.m.load_interval_cycles
            warp.arrives(op.sets_on_result, self._result_time(warp, op, group, now))
            warp.arrives(op.sets_on_read, now + _OPERANDS_READ_CYCLES)
            self.wake[s] = min(self.wake[s], now)
            return True
        return False

    def _result_time(self, warp: Warp, op: Op, group: Group | None, now: float) -> float:
        if op.kind in ("copy", "global"):
            transfer = COPY_BYTES / self.m.l2_bytes_per_clk
            self.l2_free = max(now, self.l2_free) + transfer
            self.l2_cycles += transfer
            arrival = self.l2_free + self.m.l2_latency_cycles
            if group is None:
                return arrival
            self.requests += 1
            heapq.heappush(self.incoming, (arrival, self.requests, warp, op.wavefronts, group))
            return now + self.m.load_interval_cycles
        self.port_free = max(self.port_free, now) + op.wavefronts
        self.port_cycles += op.wavefronts
        return now + self.m.load_latency_cycles + self.m.wavefront_latency_cycles * (op.wavefronts - 1)
