"""Run arms against each other so that the difference between them is theirs, and record every cell.

A run is a number of fresh processes (the unit of inference). In each, after warm-up blocks that are not recorded,
every block runs each arm once in a balanced random order, and the parent writes each cell as it comes. Arms are any
callables that return a Cell; nothing here knows of CUDA or GEMM. The trap: cells of one process share its fate
(addresses, clocks, code placement), so more blocks are no substitute for more processes. Use:

    from stats.run.trials import TrialSpec, run_trials
    if __name__ == "__main__":  # needed only if my_factory is defined in this same script
        spec = TrialSpec(tool="mine", reference="a", comparisons=[("a", "b")])
        record = run_trials(spec, my_factory, out=Path("mine.jsonl"))  # my_factory() -> {"a": callable, "b": callable}
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from stats.base.errors import BenchError, UserError
from stats.record.attempts import complete_attempts, next_attempt, require_same_run
from stats.record.reader import read_record
from stats.record.schema import Cell, CellRow, ProcessEvent, ProcessRow, Record, SkipRow
from stats.record.writer import RecordWriter, check_writable
from stats.run.clocks import ClockMode, Clocks
from stats.run.order import block_orders
from stats.run.processes import FreshProcess, Interrupted, NoAnswer, ProcessDied, SignalWatch
from stats.run.progress import Progress, Silent
from stats.run.spec import TrialSpec, check_arms, make_header
from stats.run.worker import ArmSet, Facts, Failure

_BYTES_PER_CELL = 600  # a cell line with a few values of its own
_CLOSE_TIMEOUT_S = 60.0


def run_trials(
    spec: TrialSpec,
    factory: Callable[[], ArmSet | Mapping[str, Callable[[], Cell]]],
    *,
    out: Path | None = None,
    resume: bool = False,
    clocks: ClockMode | None = None,
    progress: Progress | None = None,
    nvml: Any = None,
) -> Record:
    """Run ``factory``'s arms as ``spec`` says, in fresh processes, and return the record (``out`` grows cell by cell).

    ``factory`` must be picklable (a module-level function or functools.partial of one); each process calls it once.
    ``resume`` continues ``out`` if it exists: finished processes are kept, an unfinished one is repeated with the same
    order as a new attempt. ``clocks`` overrides ``spec.clocks``; ``nvml`` stands in for the module ``pynvml``.

    Raises UserError for bad input and for a record of another run (field named); what an arm raises as UserError or
    BenchError; BenchError naming the arm for any other failure, a death by signal and a cell that took too long. Ctrl+C
    ends in KeyboardInterrupt, SIGTERM and SIGHUP in SystemExit(128 + signal). In all cases clocks are
    restored, no process is left, and the cells so far are in the record.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(
            f"{sys.argv[0]}: run_trials was reached while this script was imported by a fresh process; "
            'put the call under: if __name__ == "__main__":'
        )
    spec = replace(spec, clocks=clocks) if clocks is not None else spec
    payload, with_main = _pickled(factory)
    previous = read_record(out) if resume and out is not None and out.exists() else None
    if previous is not None:
        require_same_run(previous.header, make_header(spec), known_device=False)
    elif out is not None:
        check_writable(out, spec.processes * spec.blocks * _BYTES_PER_CELL)
    run = _Run(spec, payload, with_main, out, previous, progress or Silent(), nvml)
    try:
        with SignalWatch() as watch:
            return run.all_processes(watch)
    except Interrupted as stop:
        if stop.number == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + stop.number) from None


def _pickled(factory: Callable[[], Any]) -> tuple[bytes, bool]:
    """The factory as bytes, and whether it needs the running script to be imported."""
    try:
        payload = pickle.dumps(factory)
    except Exception as error:
        raise UserError(
            f"factory: cannot be sent to a fresh process ({' '.join(str(error).split())}); "
            "use a function at the top level of a module, or functools.partial of one"
        ) from None
    with_main = b"__main__" in payload
    if with_main and not os.path.isfile(getattr(sys.modules["__main__"], "__file__", None) or ""):
        raise UserError(
            "factory: is defined in an interactive session, which a fresh process cannot import; use a file"
        )
    return payload, with_main


class _ArmError(Exception):
    """The arm or the factory raised."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.summary)
        self.failure = failure


class _RemoteTraceback(Exception):  # noqa: N818 - shown as the cause of the error, like in concurrent.futures
    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class _Run:
    """One call of run_trials: the state that its steps share."""

    def __init__(
        self,
        spec: TrialSpec,
        payload: bytes,
        with_main: bool,
        out: Path | None,
        previous: Record | None,
        progress: Progress,
        nvml: Any,
    ) -> None:
        self._spec = spec
        self._payload, self._with_main = payload, with_main
        self._out, self._previous = out, previous
        self._progress = progress
        self._nvml = nvml
        self._writer: RecordWriter | None = None
        self._clocks: Clocks | None = None
        self._waiting: FreshProcess | None = None

    def all_processes(self, watch: SignalWatch) -> Record:
        """Run every process that the record lacks; raises Interrupted, UserError or BenchError."""
        done = complete_attempts(self._previous) if self._previous is not None else {}
        to_do = [process for process in range(self._spec.processes) if process not in done]
        if self._previous is not None:
            if self._previous.torn_line is not None:
                self._progress.note(f"{self._out}: line {self._previous.torn_line} was cut off and is dropped")
            self._progress.note(f"{self._out}: {len(done)} of {self._spec.processes} processes are finished")
            if not to_do and any(event.event == "complete" for event in self._previous.events):
                return self._previous
        with ExitStack() as stack:
            stack.callback(self._progress.end)
            stack.callback(self._end_waiting)
            if not to_do and self._previous is not None:  # killed between its last cell and its last line
                self._writer = stack.enter_context(RecordWriter(self._out, self._previous.header, resume=True))
            for process in to_do:
                self._one_process(process, watch, stack, last=process == to_do[-1])
            assert self._writer is not None
            self._writer.append(ProcessRow(-1, "complete"))
            watch.check()
            return self._writer.record

    def _start_process(self, watch: SignalWatch) -> FreshProcess:
        return FreshProcess(watch, with_main=self._with_main, preload=self._spec.preload)

    def _take_process(self, watch: SignalWatch) -> FreshProcess:
        """The process that has been importing while the one before it measured, or a new one."""
        child, self._waiting = self._waiting, None
        return child or self._start_process(watch)

    def _end_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.kill()

    def _one_process(self, process: int, watch: SignalWatch, stack: ExitStack, *, last: bool) -> None:
        spec = self._spec
        self._progress.status(f"process {process + 1} of {spec.processes}: starting")
        at = "factory"
        attempt = 0
        child = self._take_process(watch)
        try:
            facts: Facts = _answer(child, self._payload, spec.start_timeout_s)
            writer, clocks = self._open(facts, stack)
            attempt = next_attempt(writer.record, process)
            own = (os.getpid(), child.pid)
            others = clocks.sample(own).other_processes
            if others > 0:
                self._progress.note(f"process {process}: {others} other process(es) on the GPU; the figures may suffer")
            writer.append(ProcessRow(process, "start", attempt, other_processes=others))
            for order in block_orders(facts.arms, spec.warmup_blocks, seed=spec.seed, process=process, warmup=True):
                for arm in order:
                    at = f"arm {arm} (process {process}, warm-up)"
                    _answer(child, arm, spec.cell_timeout_s)
            self._progress.status(f"process {process + 1} of {spec.processes}")
            if spec.preload and not last:
                self._waiting = self._start_process(watch)
            for block, order in enumerate(block_orders(facts.arms, spec.blocks, seed=spec.seed, process=process)):
                for position, arm in enumerate(order):
                    at = f"arm {arm} (process {process}, block {block})"
                    cell, started_s = _answer(child, arm, spec.cell_timeout_s)
                    state = clocks.sample(own)
                    row = CellRow(
                        process=process,
                        block=block,
                        position=position,
                        arm=arm,
                        temperature_c=state.temperature_c,
                        power_w=state.power_w,
                        nvml_clock_mhz=state.sm_clock_mhz,
                        throttle_reasons=state.throttle_reasons,
                        other_processes=state.other_processes,
                        started_s=started_s,
                        attempt=attempt,
                        **cell,
                    )
                    writer.append(row)
                    self._progress.advance(row)
            writer.append(ProcessRow(process, "end", attempt, detail=child.finish(_CLOSE_TIMEOUT_S)))
        except Interrupted as stop:
            self._event(process, "interrupted", attempt, f"{stop} at {at}")
            raise
        except (ProcessDied, NoAnswer) as error:
            self._event(process, "failed", attempt, f"{at}: {error}")
            raise BenchError(f"{at}: {error}; {self._what_is_kept()}") from None
        except _ArmError as error:
            self._event(process, "failed", attempt, f"{at}: {error}")
            cause = _RemoteTraceback(error.failure.traceback)
            known = error.failure.as_bench_error()
            raise known or BenchError(f"{at}: {error}; {self._what_is_kept()}") from cause
        finally:
            child.kill()

    def _open(self, facts: Facts, stack: ExitStack) -> tuple[RecordWriter, Clocks]:
        """With the first process's facts: set the clocks, write the header. Later: check that they are the same."""
        spec = self._spec
        if self._writer is not None and self._clocks is not None:
            require_same_run(self._writer.record.header, make_header(spec, facts, self._clocks.state))
            return self._writer, self._clocks
        check_arms(spec, facts)
        gpu = None if facts.device is None else str(facts.device["uuid"])
        clocks = Clocks(spec.clocks, uuid=gpu, sm_mhz=spec.sm_mhz, memory_mhz=spec.memory_mhz, nvml=self._nvml)
        stack.enter_context(clocks)
        if clocks.warning is not None:
            self._progress.note(clocks.warning)
        header = make_header(spec, facts, clocks.state)
        if self._previous is not None:
            require_same_run(self._previous.header, header)
        writer = stack.enter_context(RecordWriter(self._out, header, resume=self._previous is not None))
        if self._previous is not None:
            writer.append(ProcessRow(-1, "resumed"))
        told = {skip.arm for skip in writer.record.skips}
        for arm, reason in facts.skipped.items():
            if arm not in told:
                writer.append(SkipRow(arm, reason))
        per_process = spec.blocks * len(facts.arms)
        self._progress.begin(per_process * spec.processes, per_process * len(complete_attempts(writer.record)))
        self._writer, self._clocks = writer, clocks
        return writer, clocks

    def _event(self, process: int, event: ProcessEvent, attempt: int, detail: str) -> None:
        if self._writer is not None:
            # The disk may be what failed; then the first error is the one to be told.
            with suppress(UserError):
                self._writer.append(ProcessRow(process, event, attempt, detail=detail))

    def _what_is_kept(self) -> str:
        if self._writer is None:
            return "nothing was recorded yet"
        cells = len(self._writer.record.cells)
        return f"the {cells} cells before it are kept" + (f" in {self._out}" if self._out is not None else "")


def _answer(child: FreshProcess, message: bytes | str, timeout_s: float) -> Any:
    answer = child.request(message, timeout_s)
    if isinstance(answer, Failure):
        raise _ArmError(answer)
    return answer
