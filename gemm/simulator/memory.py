"""Where is a memory instruction between its issue and its result? Queues, the shared-memory port and L2.

Each sub-partition has a queue for memory instructions, served in order; an access to shared memory (a commit and a
blank load, too) then joins the one queue of the SM's port, and a copy goes to L2 and back. A line takes less of the
port's time than a wavefront of its size would: loads and arriving copies together were measured above 128 bytes per
clock (``micro-bench contention``). The trap: the time of a result is known only once its access reaches the port, so
until then a warp counts it as pending.
"""

from __future__ import annotations

from collections import deque

from gemm.simulator.machine import Machine
from gemm.simulator.operands import Operands
from gemm.simulator.program import SCOREBOARDS
from gemm.simulator.step import Step
from micro.gpu.limits import SUB_PARTITIONS

NEVER = float("inf")
COPY_BYTES = 512  # of one warp-wide instruction: 32 lanes of 16 bytes
_TO_PORT_CYCLES = 1  # from the queue of an access that waits for nobody; part of the measured latency


class Group:
    """A committed group of copies: how many are under way, and when the last known one was stored."""

    __slots__ = ("copies", "done")

    def __init__(self) -> None:
        self.copies, self.done = 0, 0.0


class Warp:
    """One warp: where it is, when it may issue, and what it has under way."""

    __slots__ = (
        "block",
        "groups",
        "issued_at",
        "loops",
        "open_group",
        "parked",
        "pc",
        "pending",
        "ready",
        "result_at",
        "smsp",
    )

    def __init__(self, block: int, smsp: int, start: float) -> None:
        self.block, self.smsp = block, smsp
        self.pc = self.loops = 0
        self.ready = start
        self.issued_at = -1.0  # its last instruction
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


_Access = tuple[Warp, Step, Group | None]


class Memory:
    """Shared memory of one SM and its way to L2. ``wake`` [sub-partition] is when it must be looked at again."""

    def __init__(self, machine: Machine, operands: Operands, wake: list[float]) -> None:
        self.m, self.operands, self.wake = machine, operands, wake
        self.queues: list[deque[_Access]] = [deque() for _ in range(SUB_PARTITIONS)]
        self.queue_free = [0.0] * SUB_PARTITIONS
        self.for_port: deque[tuple[float, Warp, Step]] = deque()
        self.for_l2: deque[_Access] = deque()
        self.port_free = self.lines_free = self.l2_free = 0.0
        self.turn = 0
        self.port_cycles = self.served_until = 0.0  # until then the port is busy with accesses, copies aside
        self.next = NEVER  # nothing can move on before

    @property
    def busy(self) -> bool:
        """Something is queued."""
        return bool(self.for_port or self.for_l2) or any(self.queues)

    def full(self, smsp: int) -> bool:
        """No place in the sub-partition's queue."""
        return len(self.queues[smsp]) >= self.m.queue_depth

    def enqueue(self, warp: Warp, step: Step, now: float) -> None:
        """Take an instruction that is issued now."""
        group = None
        if step.kind == "copy":
            group = warp.open_group = warp.open_group or Group()
            group.copies += 1
        if step.sets_on_result is not None:
            warp.pending[step.sets_on_result] += 1
        if step.sets_on_read is not None:
            warp.pending[step.sets_on_read] += 1
        smsp = warp.smsp
        self.queues[smsp].append((warp, step, group))
        self.next = min(self.next, max(self.queue_free[smsp], self.operands.memory_free[smsp], now + 1))

    def serve(self, now: float) -> None:
        """Move everything on that can move at ``now``, the port first; ``next`` is when to look again."""
        soon = now + 1
        again = NEVER
        if self.for_port:
            self._port(now)
        if self.for_l2:
            self._lines(now)
        self._leave_queues(now)
        if self.for_port:
            again = max(self.port_free, self.for_port[0][0], soon)
        if self.for_l2:
            again = min(again, max(self.lines_free, soon))
        if again > soon:  # else a queue cannot be earlier
            for s in range(SUB_PARTITIONS):
                if self.queues[s]:
                    when = max(self.queue_free[s], self.operands.memory_free[s], soon)
                    if when < again and not self._stuck(s):
                        again = when
        self.next = again

    def _stuck(self, smsp: int) -> bool:
        """The head of the queue has all its operands but the last, and what comes after has no place for it."""
        step = self.queues[smsp][0][1]
        full = len(self.for_l2) >= self.m.copy_depth if step.to_l2 else len(self.for_port) >= self.m.port_depth
        return full and self.operands.last_read_is_next(smsp, step)

    def _take_port(self, cycles: float, now: float) -> None:
        free = self.port_free
        self.port_free = (free if free > now else now) + cycles
        self.port_cycles += cycles

    def _port(self, now: float) -> None:
        while self.for_port and self.port_free <= now and self.for_port[0][0] <= now:
            _, warp, step = self.for_port.popleft()
            self._take_port(step.port_cycles, now)
            self.served_until = self.port_free
            arrives = now - _TO_PORT_CYCLES + self.m.load_latency_cycles + step.more_latency_cycles
            warp.arrives(step.sets_on_result, arrives)
            self.wake[warp.smsp] = min(self.wake[warp.smsp], now)

    def _lines(self, now: float) -> None:
        """Copies ask for their lines in turn; the data come at L2's rate after its latency."""
        while self.for_l2 and self.lines_free <= now:
            warp, step, group = self.for_l2.popleft()
            free = self.lines_free
            self.lines_free = (free if free > now - 1 else now) + step.line_cycles
            self._take_port(step.port_cycles, now)
            self.l2_free = max(self.lines_free, self.l2_free) + COPY_BYTES / self.m.l2_bytes_per_clk
            arrival = self.l2_free + self.m.l2_latency_cycles
            warp.arrives(step.sets_on_result, arrival if group is None else now)
            if group is not None:
                group.copies -= 1
                group.done = max(group.done, arrival)
            self.wake[warp.smsp] = min(self.wake[warp.smsp], now)

    def _leave_queues(self, now: float) -> None:
        """Sub-partitions take turns; each gives an access its ``queue_cycles``, or as fast as it takes results."""
        queues, queue_free, memory_free = self.queues, self.queue_free, self.operands.memory_free
        for k in range(SUB_PARTITIONS):
            s = (self.turn + k) % SUB_PARTITIONS
            queue = queues[s]
            if not queue or queue_free[s] > now or memory_free[s] > now or self._stuck(s):
                continue
            if not self.operands.read(s, queue[0][1], now):
                continue
            warp, step, group = queue.popleft()
            self.turn = s + 1
            queue_free[s] = now + step.queue_cycles
            warp.arrives(step.sets_on_read, now + 1)
            if step.to_l2:
                self.for_l2.append((warp, step, group))
            else:
                self.for_port.append((now + _TO_PORT_CYCLES, warp, step))
            self.wake[s] = min(self.wake[s], now)
