"""A simulation that is read back is the one that would be computed, and nothing else is ever taken for it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemm.simulator import simulate as simulator
from gemm.simulator import simulated
from gemm.simulator.machine import MACHINES
from gemm.simulator.program import Op, Program
from gemm.simulator.simulate import Blocks, Simulation
from stats.record.provenance import PACKAGE_ROOT
from stats.run.progress import announced_steps

LOAD = Op("load", 2, sets_on_result=0, wavefronts=1)
PROGRAM = Program("a loop", 90, (LOAD, Op("mma", 3, waits_for=(0,)), Op("copy", 1, lines=1.75), Op("barrier", 5)), 1)
MACHINE = MACHINES[90]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The programs that were really simulated, with a cache of the test's own."""
    monkeypatch.setenv("SMEM_BENCH_CACHE", str(tmp_path / "cache"))
    done: list[str] = []
    real = simulator.simulate

    def counting(program: Program, *arguments: Any, **options: Any) -> Simulation:
        done.append(program.name)
        return real(program, *arguments, **options)

    monkeypatch.setattr(simulator, "simulate", counting)
    return done


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "simulations").iterdir())


def test_what_is_read_back_equals_what_was_computed_to_the_bit(runs: list[str]) -> None:
    for blocks in (1, 2, Blocks(2, 5, 200 / 3, 100.1, 7.7)):
        first, second = (simulated.simulate(PROGRAM, MACHINE, blocks=blocks, loops=3) for _ in range(2))
        assert first == second == simulator.simulate(PROGRAM, MACHINE, blocks=blocks, loops=3)
        assert repr(first) == repr(second)  # the order of the waits, int or float, all digits
    assert len(runs) == 6


CHANGES: dict[str, Callable[[], Any]] = {
    "an op": lambda: simulated.simulate(replace(PROGRAM, ops=(*PROGRAM.ops, LOAD)), MACHINE, blocks=1),
    "a stall": lambda: simulated.simulate(
        replace(PROGRAM, ops=(replace(LOAD, stall_cycles=3), *PROGRAM.ops[1:])), MACHINE, blocks=1
    ),
    "k-steps": lambda: simulated.simulate(replace(PROGRAM, ksteps=2), MACHINE, blocks=1),
    "the machine": lambda: simulated.simulate(PROGRAM, replace(MACHINE, load_latency_cycles=23.000001), blocks=1),
    "blocks": lambda: simulated.simulate(PROGRAM, MACHINE, blocks=2),
    "warps": lambda: simulated.simulate(PROGRAM, MACHINE, blocks=1, warps_per_block=4),
    "loops": lambda: simulated.simulate(PROGRAM, MACHINE, blocks=1, loops=9),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_a_result_depends_on_makes_it_another(change: Callable[[], Any], runs: list[str]) -> None:
    simulated.simulate(PROGRAM, MACHINE, blocks=1)
    renamed = replace(PROGRAM, name="the same loop of another kernel")
    simulated.simulate(renamed, MACHINE.measured({"sm_count": MACHINE.sm_count}, "a record"), blocks=1)
    assert len(runs) == 1
    change()
    assert len(runs) == 2


def test_another_simulator_computes_anew(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for digest in ("one", "another"):
        monkeypatch.setattr(simulated, "_simulator_hash", lambda digest=digest: digest)
        simulated.simulate(PROGRAM, MACHINE, blocks=1)
    assert len(runs) == 2


@pytest.mark.parametrize("source", simulated.SIMULATOR_SOURCES)
def test_the_sources_hold_all_that_the_simulator_imports(source: str) -> None:
    """What reads machine code (micro.code.sass, micro.gpu.toolchain) is no part of it: the program is given."""
    names = set()
    for node in ast.walk(ast.parse((PACKAGE_ROOT / source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("gemm", "micro"):
            names.add(node.module.replace(".", "/") + ".py")
    assert names <= {*simulated.SIMULATOR_SOURCES, "micro/code/sass.py", "micro/gpu/toolchain.py"}


def field(name: str, value: Any) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps({**json.loads(data), name: value}).encode()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda data: data[:-9],
    "empty": lambda data: b"",
    "binary": lambda data: b"\xff\xfe" + data,
    "a list": lambda data: b"[]",
    "deep": lambda data: b"[" * 100_000,
    "text": field("cycles", "100"),
    "true": field("cycles", True),
    "null": field("port_busy", None),
    "no number of a wait": field("waits", {"stall": "1"}),
    "waits in a list": field("waits", [1]),
    "one more": field("another", 1),
    "one less": lambda data: json.dumps({k: v for k, v in json.loads(data).items() if k != "warps"}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_result_is_computed_anew_and_mended(
    damage: Callable[[bytes], bytes], runs: list[str], tmp_path: Path
) -> None:
    first = simulated.simulate(PROGRAM, MACHINE, blocks=1)
    (path,) = kept(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert repr(simulated.simulate(PROGRAM, MACHINE, blocks=1)) == repr(first)
    assert len(runs) == 2
    assert path.read_bytes() == whole


def test_without_a_cache_it_computes(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMEM_BENCH_CACHE", "/dev/null/nowhere")
    assert simulated.simulate(PROGRAM, MACHINE, blocks=1).cycles > 0
    assert runs == ["a loop"]


def test_a_terminal_is_told_what_is_simulated_and_nobody_else(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with announced_steps(2, stream) as step:
        step("sm_90: ceilings")
        simulated.simulate(PROGRAM, MACHINE, blocks=1)
    assert "sm_90: ceilings: simulating a loop" in stream.getvalue()
    with announced_steps(2) as step:
        step("sm_90: ceilings")
        simulated.simulate(PROGRAM, MACHINE, blocks=2)
    assert len(runs) == 2
    assert capsys.readouterr() == ("", "")
