"""A simulation that was done once is read back: its result lies in the build cache, named by all that it depends on.

That is the program's instructions with their scheduling bits, the machine's figures, the blocks, and the simulator's
own sources. A file that is not whole is computed anew. The trap: a source that is missing from the list would let
results of an older simulator stand, so a test holds the list against what the simulator imports.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from dataclasses import asdict, fields, replace
from pathlib import Path

from gemm.simulator import simulate as simulator
from gemm.simulator.machine import Machine
from gemm.simulator.program import Program
from gemm.simulator.simulate import Blocks, Simulation
from micro.gpu.build_cache import cache_dir
from stats.base.errors import UserError
from stats.base.files import write_whole
from stats.record.provenance import PACKAGE_ROOT, hash_sources
from stats.run.progress import doing

# Relative to the packages' folder: all from which a result follows, given the program.
SIMULATOR_SOURCES = (
    *(f"gemm/simulator/{name}.py" for name in ("simulate", "step", "memory", "operands", "machine", "program")),
    "micro/gpu/limits.py",
)


@functools.cache
def _simulator_hash() -> str:
    return hash_sources(PACKAGE_ROOT / name for name in SIMULATOR_SOURCES)


def result_file(program: Program, machine: Machine, blocks: Blocks, warps_per_block: int, loops: int) -> Path | None:
    """Where the result of this simulation lies once it was done; None where nothing can be kept."""
    parts = (program.ops, program.ksteps, replace(machine, sources={}), blocks, warps_per_block, loops)
    key = hashlib.sha256(repr((_simulator_hash(), *parts)).encode()).hexdigest()
    try:
        return cache_dir() / "simulations" / f"{key}.json"
    except UserError:
        return None


def _read(path: Path) -> Simulation | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        numbers = [found[field.name] for field in fields(Simulation) if field.name != "waits"]
        numbers += found["waits"].values()
        whole = set(found) == {field.name for field in fields(Simulation)}
        return Simulation(**found) if whole and all(type(number) in (int, float) for number in numbers) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def simulate(
    program: Program, machine: Machine, *, blocks: int | Blocks, warps_per_block: int = 8, loops: int = 8
) -> Simulation:
    """What ``gemm.simulator.simulate.simulate`` returns, to the bit, read back where it was computed before."""
    if isinstance(blocks, int):
        blocks = Blocks(at_once=blocks, in_all=blocks)
    path = result_file(program, machine, blocks, warps_per_block, loops)
    found = _read(path) if path is not None else None
    if found is None:
        doing(f"simulating {program.name}")
        found = simulator.simulate(program, machine, blocks=blocks, warps_per_block=warps_per_block, loops=loops)
        if path is not None:
            with contextlib.suppress(UserError):  # a full disk costs the time, not the result
                write_whole(path, json.dumps(asdict(found)).encode())
    return found
