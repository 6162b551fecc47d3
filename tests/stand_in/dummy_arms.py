"""Arms without a GPU for tests of the runner: fixed figures, and every way in which an arm can go wrong.

The factories are module-level functions, since fresh processes import them. What a cell returns depends on the arm and
on how many cells its process has run before, so that a repeated process gives the same cells.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from stats.base.errors import BenchError, UserError
from stats.record.schema import Cell, Device
from stats.run.worker import ArmSet

BASE_NS = {"A": 1000.0, "A.twin": 1000.0, "B": 1100.0, "C": 900.0}
DEVICE = Device(name="Stand-in", uuid="00000000-1111-2222-3333-444444444444", compute_capability="9.0", sm_count=132)


class Arm:
    """Returns a figure that depends on its name and on how often it was called; closing leaves a mark in a file."""

    def __init__(self, name: str, closed: Path | None = None) -> None:
        self.name, self.calls, self.closed = name, 0, closed

    def __call__(self) -> Cell:
        self.calls += 1
        time_ns = BASE_NS[self.name] * (1 + 0.01 * math.sin(self.calls))
        return Cell(time_ns, time_ns * 1.98, 10, clock_mhz=1980.0, values={"calls": float(self.calls)})

    def close(self) -> None:
        if self.closed is not None:
            with self.closed.open("a") as file:
                file.write(f"{self.name}\n")


def plain(names: tuple[str, ...] = ("A", "B", "C"), closed: Path | None = None) -> dict[str, Callable[[], Cell]]:
    return {name: Arm(name, closed) for name in names}


def with_facts(source_hash: str = "abc", uuid: str = DEVICE.uuid, skipped: tuple[str, ...] = ("D",)) -> ArmSet:
    return ArmSet(
        arms=plain(("A", "A.twin", "B")),
        skipped=dict.fromkeys(skipped, "needs sm_100"),
        static={"A": {"registers": 40}},
        device=DEVICE.model_copy(update={"uuid": uuid}),
        software={"torch": "2.9.9"},
        source_hash=source_hash,
        build_flags=["-O3"],
        workload={"m": 4096},
    )


def misbehaving(how: str, after_calls: int = 3, once: Path | None = None) -> dict[str, Callable[[], Cell]]:
    """Arm B does ``how`` in its cell number ``after_calls``; with ``once``, only if that file can be made."""
    good = Arm("B")

    def bad() -> Cell:
        cell = good()
        if good.calls == after_calls and (once is None or _first_time(once)):
            return _misbehave(how)
        return cell

    return {"A": Arm("A"), "B": bad}


def _first_time(once: Path) -> bool:
    try:
        once.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _misbehave(how: str) -> Cell:
    if how in ("SIGSEGV", "SIGKILL"):
        os.kill(os.getpid(), getattr(signal, how))
    if how == "hang":
        while True:
            time.sleep(60)
    errors = {
        "user": UserError("shape: m=0 is not positive; choose m >= 1"),
        "bench": BenchError("arm B: 1200 GB/s is above the peak"),
        "value": ValueError("a fault\nin two lines"),
        "exit": SystemExit(7),
        "interrupt": KeyboardInterrupt(),
        "local": _LocalError("only the child knows this class"),
    }
    if how in errors:
        raise errors[how]
    if how == "status":
        os._exit(5)
    cells = {
        "nan": Cell(math.nan, math.nan, 1),
        "zero": Cell(0.0, math.nan, 1),
        "launches": Cell(1.0, 1.0, 0),
        "infinite": Cell(1.0, math.inf, 1),
        "clock": Cell(1.0, 1.0, 1, clock_mhz=0.0),
    }
    return cells.get(how, 42)  # type: ignore[arg-type]


class _BadlyClosed(Arm):
    def __init__(self, name: str, how: str) -> None:
        super().__init__(name)
        self.how = how

    def close(self) -> None:
        _misbehave(self.how)


def badly_closed(how: str) -> dict[str, Callable[[], Cell]]:
    return {"A": _BadlyClosed("A", how), "B": Arm("B")}


class _LocalError(BenchError):
    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return (_cannot_be_rebuilt, ())


def _cannot_be_rebuilt() -> None:
    raise RuntimeError("not in this process")


def failing_factory(how: str) -> ArmSet:
    _misbehave(how)
    raise AssertionError("unreachable")


def no_arms() -> ArmSet:
    return ArmSet(arms={}, skipped={"A": "needs sm_100"})


def not_callable() -> ArmSet:
    return ArmSet(arms={"A": 3})  # type: ignore[dict-item]


def changing(counter: Path) -> ArmSet:
    """Another source in the second process."""
    first = _first_time(counter)
    return ArmSet(arms=plain(("A", "B")), source_hash="one" if first else "two")


def leaves_a_child(pid_file: Path) -> dict[str, Callable[[], Cell]]:
    """Starts a process of its own, as a build does, and then hangs in its first cell."""
    import subprocess

    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pid_file.write_text(f"{os.getpid()} {started.pid}")
    return {"A": lambda: _misbehave("hang"), "B": Arm("B")}


def modules_loaded(path: Path) -> dict[str, Callable[[], Cell]]:
    path.write_text("\n".join(sorted(sys.modules)))
    return plain(("A", "B"))


def journalled(journal: Path, strike_at: int = 0, strike: str = "") -> ArmSet:
    """Arms that note each measured cell in a file of their own, and once (at ``strike_at``) signal the runner.

    The mark "struck" beside the journal keeps a resumed run from being struck again.
    """
    arm_set = with_facts(skipped=())

    def noting(arm: Callable[[], Cell]) -> Callable[[], Cell]:
        def run() -> Cell:
            cell = arm()
            with journal.open("ab") as file:
                file.write(b".")
            if journal.stat().st_size == strike_at and _first_time(journal.with_name("struck")):
                _strike(strike)
            return cell

        return run

    arm_set.arms = {name: noting(arm) for name, arm in arm_set.arms.items()}
    return arm_set


def _strike(how: str) -> None:
    parent, number = os.getppid(), getattr(signal, how.split()[-1])
    if how.startswith("group "):  # what a terminal does at Ctrl+C
        os.killpg(os.getpgid(parent), number)
    else:
        os.kill(parent, number)
    if how.startswith("hang "):
        time.sleep(600)


def locked_and_failing(_journal: Path, _strike_at: int, _strike: str) -> ArmSet:
    """Arms on a device (so that its clocks are locked), of which B fails."""
    arm_set = with_facts()
    return ArmSet(arms={**arm_set.arms, "B": misbehaving("value", 1)["B"]}, device=arm_set.device)


def which_process() -> dict[str, Callable[[], Cell]]:
    """Arms that tell their process and whether it has imported ``wave``, a module that nothing here needs."""

    def tell() -> Cell:
        return Cell(1.0, 1.0, 1, values={"pid": float(os.getpid()), "has_wave": float("wave" in sys.modules)})

    return dict.fromkeys(("A", "B", "C"), tell)
