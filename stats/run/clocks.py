"""Are the clocks of the GPU held, and are they given back on every way out?

``lock`` sets the SM clock (and the memory clock, where the chip allows it) through NVML, ``monitor`` only reads,
``auto`` locks if it may. A refused lock degrades to monitor, with the reason in the label that every output prints. The
clocks are restored on normal exit, exception, SIGINT, SIGTERM and SIGHUP; only ``kill -9`` leaves them locked
(``nvidia-smi -rgc -rmc`` mends that). The trap: a lock call that succeeds proves nothing. The clock measured by
the cells decides, see ``check_clocks``.
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Collection
from types import FrameType, TracebackType
from typing import Any, Literal

from stats.base.errors import UserError
from stats.record.schema import ClockState
from stats.run.nvml import DeviceState, Gpu, in_container, open_gpu

ClockMode = Literal["lock", "monitor", "auto"]
NEVER_LOCK = "SMEM_BENCH_NEVER_LOCK"  # environment: on a shared GPU, lock and auto only monitor
SAMPLE_INTERVAL_S = 0.02  # NVML's own readings are no fresher; short cells share one
_FATAL_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Clocks:
    """Context manager that locks or watches the clocks of one GPU and restores them exactly once.

    ``sm_mhz`` and ``memory_mhz`` choose frequencies; without them the SM clock is held at the chip's base clock and the
    memory clock at its highest. Inside the context ``state`` says what was done and ``warning`` what to tell the user.
    Raises UserError for a frequency that the device does not offer. Where a signal has its default action, a
    handler turns it into SystemExit(128 + signal), because the default would skip the restoring.
    """

    def __init__(
        self,
        mode: ClockMode,
        *,
        uuid: str | bytes | None = None,
        pci_bus_id: str | None = None,
        sm_mhz: int | None = None,
        memory_mhz: int | None = None,
        nvml: Any = None,
    ) -> None:
        if mode not in ("lock", "monitor", "auto"):
            raise UserError(f"clocks: {mode!r} is not one of lock, monitor, auto")
        self.mode = mode
        self._where = (uuid, pci_bus_id)
        self._sm_mhz, self._memory_mhz = sm_mhz, memory_mhz
        self._nvml = nvml
        self._gpu: Gpu | None = None
        self._to_restore: list[str] = []
        self._sampled_s, self._last = -math.inf, DeviceState()
        self._handlers: dict[signal.Signals, Any] = {}
        self.warning: str | None = None
        self.state = ClockState(requested=mode, effective="monitor", label="monitor (clocks read, not changed)")

    def __enter__(self) -> Clocks:
        try:
            found = open_gpu(*self._where, nvml=self._nvml)
            if isinstance(found, str):
                self._monitor(found)
            else:
                self._gpu = found
                if self.mode != "monitor" and os.environ.get(NEVER_LOCK):
                    self._monitor(f"{NEVER_LOCK} is set")
                elif self.mode != "monitor":
                    self._lock(found)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def sample(self, own_pids: Collection[int] = ()) -> DeviceState:
        """Temperature, power, clock, throttle reasons and other processes now; nan for what NVML does not tell."""
        if self._gpu is None:
            return DeviceState()
        now_s = time.monotonic()
        if now_s - self._sampled_s > SAMPLE_INTERVAL_S:
            self._sampled_s, self._last = now_s, self._gpu.state(own_pids)
        return self._last

    # Locking

    def _monitor(self, reason: str) -> None:
        if self.mode == "monitor":
            label = f"monitor ({reason}: no NVML readings)"
        else:
            label = f"monitor (lock refused: {reason})"
            if self.mode == "lock":
                self.warning = f"clocks: lock refused ({reason}); going on with the clocks as they are, only monitored"
        self.state = ClockState(requested=self.mode, effective="monitor", label=label)

    def _lock(self, gpu: Gpu) -> None:
        if gpu.is_mig:
            self._monitor("MIG: the clock belongs to the whole GPU")
            return
        self._check_offered(gpu)
        self._catch_signals()
        atexit.register(self._restore)
        sm = self._try_lock(gpu, "Gpu", self._sm_limits(gpu))
        if isinstance(sm, str):
            self._restore()
            self._monitor(sm)
            return
        memory_limits = [self._memory_mhz] if self._memory_mhz is not None else self._memory_clocks(gpu)[:1]
        memory = self._try_lock(gpu, "Memory", memory_limits) if memory_limits else "not offered"
        asked = f"{sm} MHz SM" if sm else "base SM clock"
        memory_note = f"{memory} MHz memory" if isinstance(memory, int) else f"memory clock not locked: {memory}"
        if isinstance(memory, str) and self._memory_mhz is not None:
            self.warning = f"clocks: memory clock of {self._memory_mhz} MHz refused ({memory}); it stays as it is"
        self.state = ClockState(
            requested=self.mode,
            effective="lock",
            locked_sm_mhz=sm or None,
            locked_memory_mhz=memory if isinstance(memory, int) else None,
            label=f"locked at {asked}, {memory_note}",
        )

    def _try_lock(self, gpu: Gpu, which: Literal["Gpu", "Memory"], limits: list[int]) -> int | str:
        """Lock at the first of ``limits`` that NVML takes: its MHz, 0 for the symbolic base clock, or why not."""
        reason = "not supported"
        base = getattr(gpu.nvml, "NVML_CLOCK_LIMIT_ID_TDP", None)
        # Noted before the call: a signal may come between NVML's answer and the next line.
        self._to_restore.append(f"nvmlDeviceReset{which}LockedClocks")
        for limit in limits:
            try:
                getattr(gpu.nvml, f"nvmlDeviceSet{which}LockedClocks")(gpu.handle, limit, limit)
            except (gpu.nvml.NVMLError, AttributeError, OSError) as error:
                reason = "not supported" if isinstance(error, AttributeError) else str(error) or "no reason given"
                if getattr(error, "value", None) == gpu.nvml.NVML_ERROR_NO_PERMISSION:
                    hint = ", as in most containers" if in_container() else ""
                    reason += f": setting clocks needs root{hint}"
                    break
            else:
                return 0 if limit == base else limit
        self._to_restore.pop()
        return reason

    def _sm_limits(self, gpu: Gpu) -> list[int]:
        if self._sm_mhz is not None:
            return [self._sm_mhz]
        # The symbolic base clock first; chips before Volta know only the default applications clock.
        symbolic = getattr(gpu.nvml, "NVML_CLOCK_LIMIT_ID_TDP", None)
        default = gpu.ask("nvmlDeviceGetDefaultApplicationsClock", gpu.nvml.NVML_CLOCK_SM, missing=0, convert=int)
        return [limit for limit in (symbolic, default) if limit]

    @staticmethod
    def _memory_clocks(gpu: Gpu) -> list[int]:
        offered: list[int] = gpu.ask("nvmlDeviceGetSupportedMemoryClocks", missing=[], convert=list)
        return sorted(offered, reverse=True)

    def _check_offered(self, gpu: Gpu) -> None:
        memory = self._memory_clocks(gpu)
        if self._memory_mhz is not None:
            _require_offered("memory", self._memory_mhz, memory)
        if self._sm_mhz is not None and memory:
            at = self._memory_mhz if self._memory_mhz is not None else memory[0]
            offered: list[int] = gpu.ask("nvmlDeviceGetSupportedGraphicsClocks", at, missing=[], convert=list)
            _require_offered("SM", self._sm_mhz, offered)

    # Restoring

    def _restore(self) -> None:
        # Struck off after the call: a second signal in between leaves it to atexit, and resetting twice is harmless.
        while self._to_restore and self._gpu is not None:
            try:
                getattr(self._gpu.nvml, self._to_restore[-1])(self._gpu.handle)
            except (self._gpu.nvml.NVMLError, OSError) as error:
                print(f"clocks could not be restored ({error}); run: nvidia-smi -rgc -rmc", file=sys.stderr)
            self._to_restore.pop()
        atexit.unregister(self._restore)

    def _leave(self) -> None:
        self._restore()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        if self._gpu is not None:
            self._gpu.close()
            self._gpu = None

    def _catch_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # handlers belong to the main thread; atexit is what is left
        for number in _FATAL_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, _exit_on_signal)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _require_offered(what: str, mhz: int, offered: list[int]) -> None:
    if offered and mhz not in offered:
        nearest = sorted(sorted(offered, key=lambda each: abs(each - mhz))[:2])
        near = " or ".join(str(each) for each in nearest)
        raise UserError(
            f"clocks: {what} clock of {mhz} MHz is not offered by this GPU ({min(offered)} to {max(offered)} MHz); "
            f"nearest: {near}"
        )
