"""What happens inside one fresh process: call the factory, then run one arm each time the parent asks for it.

The parent decides which arm is next and alone writes the record; here nothing is known of blocks or files. Everything
sent back is plain data, so that the parent needs none of the libraries that the arms use. The trap: this process must
not outlive its parent, not even inside a cell that hangs, and a Ctrl+C meant for the parent must not kill it first.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from stats.base.errors import BenchError, UserError
from stats.record.schema import Cell, Device


@dataclass
class ArmSet:
    """What a factory returns: the arms by name, and what is known of them and of the place where they run.

    ``skipped`` names the arms that cannot run here and why; ``static`` is what is known of an arm without running it;
    ``workload`` is what must agree for two records to be comparable. ``sources`` are the files behind ``source_hash``,
    as ``stats.record.provenance.relative_sources`` names them. An arm may have a ``close()``.
    """

    arms: Mapping[str, Callable[[], Cell]]
    skipped: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    device: Device | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    source_hash: str = "none"
    sources: list[str] = field(default_factory=list)
    build_flags: list[str] = field(default_factory=list)
    workload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """An ArmSet without its callables, as plain data that the parent can read."""

    arms: tuple[str, ...]
    skipped: dict[str, str]
    static: dict[str, dict[str, Any]]
    device: dict[str, Any] | None
    software: dict[str, str]
    source_hash: str
    sources: list[str]
    build_flags: list[str]
    workload: dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """An exception of the factory or an arm: one line, its traceback, and itself if it was a BenchError."""

    summary: str
    traceback: str
    exit_status: int | None = None  # of a BenchError, else None
    pickled: bytes | None = None

    def as_bench_error(self) -> BenchError | None:
        """The UserError or BenchError that was raised, or None if it was some other exception."""
        if self.exit_status is None:
            return None
        if self.pickled is not None:
            # The class may be one that only the child can import; its message and status are what matters.
            with contextlib.suppress(Exception):
                error = pickle.loads(self.pickled)
                if isinstance(error, BenchError):
                    return error
        return (UserError if self.exit_status == UserError.exit_status else BenchError)(self.summary)


def serve(connection: Connection, preload: Sequence[str] = ()) -> None:
    """Serve the parent until it says stop or is gone: first its factory (pickled bytes), then one arm per request.

    ``preload`` names modules to import before the factory comes; one that fails is the factory's to report.
    """
    _leave_the_terminals_group()
    _end_with_parent()
    for module in preload:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    arms: Mapping[str, Callable[[], Cell]] = {}
    try:
        try:
            factory = connection.recv_bytes()
            started_s = time.monotonic()
            made = pickle.loads(factory)()
            arm_set = made if isinstance(made, ArmSet) else ArmSet(arms=made)
            arms = arm_set.arms
            connection.send(_facts(arm_set))
        except EOFError:
            return
        except BaseException as error:
            connection.send(_failure(error))
            return
        while (name := connection.recv()) is not None:
            try:
                before_s = time.monotonic() - started_s
                connection.send((_checked(name, arms[name]()), before_s))
            except BaseException as error:
                connection.send(_failure(error))
                return
        _close(arms)
    except (EOFError, OSError):
        return  # the parent is gone: nobody is left to be told


def _leave_the_terminals_group() -> None:
    """Ctrl+C reaches the parent alone, which then stops this whole group (compilers that an arm started, too)."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent starts this process with these blocked, so that none arrives before the lines above.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _facts(arm_set: ArmSet) -> Facts:
    for name, arm in arm_set.arms.items():
        if not callable(arm):
            raise UserError(
                f"arm {name}: {type(arm).__name__} is not callable; an arm is a function that returns a Cell"
            )
    return Facts(
        arms=tuple(arm_set.arms),
        skipped=dict(arm_set.skipped),
        static={name: _plain_json(facts) for name, facts in arm_set.static.items()},
        device=None if arm_set.device is None else arm_set.device.model_dump(mode="json"),
        software={str(name): str(version) for name, version in arm_set.software.items()},
        source_hash=arm_set.source_hash,
        sources=list(arm_set.sources),
        build_flags=list(arm_set.build_flags),
        workload=_plain_json(arm_set.workload),
    )


def _plain_json(value: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(value), default=_plain_scalar))
    return plain


def _plain_scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _checked(name: str, cell: Any) -> dict[str, Any]:
    """The cell as plain numbers. Raises BenchError for what is no Cell or measures nothing."""
    if not isinstance(cell, Cell):
        raise BenchError(f"arm {name}: returned {type(cell).__name__} instead of a Cell")
    plain = asdict(cell)
    for figure in ("time_ns", "sm_cycles", "clock_mhz"):
        plain[figure] = float(plain[figure])
    plain["values"] = {str(key): float(value) for key, value in cell.values.items()}
    plain["launches"] = int(cell.launches)
    if plain["launches"] < 1:
        raise BenchError(f"arm {name}: a cell of {plain['launches']} launches measures nothing")
    measured = [figure for figure in (plain["time_ns"], plain["sm_cycles"]) if figure == figure]
    if not measured:
        raise BenchError(f"arm {name}: neither time_ns nor sm_cycles was measured (both are nan)")
    if min(measured) <= 0:
        raise BenchError(f"arm {name}: time_ns {plain['time_ns']:g}, sm_cycles {plain['sm_cycles']:g}: not positive")
    if math.inf in measured:
        raise BenchError(f"arm {name}: time_ns {plain['time_ns']:g}, sm_cycles {plain['sm_cycles']:g}: not finite")
    if plain["clock_mhz"] <= 0 or plain["clock_mhz"] == math.inf:  # nan: not measured
        raise BenchError(f"arm {name}: clock_mhz {plain['clock_mhz']:g}: neither nan nor a finite number above 0")
    return plain


def _failure(error: BaseException) -> Failure:
    text = " ".join(str(error).split())
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if not isinstance(error, BenchError):
        return Failure(f"{type(error).__name__}: {text}" if text else type(error).__name__, trace)
    pickled = None
    with contextlib.suppress(Exception):
        pickled = pickle.dumps(error)
    return Failure(text, trace, error.exit_status, pickled)


def _close(arms: Mapping[str, Callable[[], Cell]]) -> None:
    for arm in reversed(list(arms.values())):
        close = getattr(arm, "close", None)
        if callable(close):
            close()
