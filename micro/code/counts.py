"""What does a warp's k-step cost in instructions, and what does a kernel occupy, by the machine code alone?

The main loop's instructions are counted and divided by the k-steps the loop holds, so that unrolling does not matter.
k-steps come from the code twice, from the mma and from the bytes the loads move, and the two must agree; with loads
alone the bytes decide. The traps: counting ``LDS|LDSM`` over a whole kernel, as the eye does, also counts loads before
and after the loop, and finds the right number in a kernel whose loop is empty.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from micro.code.cubin import Resources, read_resources
from micro.code.loops import Loop, main_loop
from micro.code.sass import Function, Instruction, SassError, Tool, disassemble
from micro.gpu.limits import Residency, resident_blocks
from micro.model.layout import layout

Item = TypeVar("Item")

_WARP = 32
_LDS_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}
_INTEGER = {
    "PRMT": "PRMT",
    "LOP3": "LOP3",
    "IMAD": "IMAD",
    "LEA": "LEA",
    "IADD3": "IADD",
    "IADD": "IADD",
    "VIADD": "IADD",
}
_CONTROL = {"BRA", "CALL", "EXIT", "ISETP", "PLOP3", "BSSY", "BSYNC", "WARPSYNC", "JMP", "BREAK"}
_COPY = {"LDGSTS": "LDGSTS", "LDGDEPBAR": "DEPBAR", "DEPBAR": "DEPBAR", "LDG": "LDG", "STS": "STS", "BAR": "BAR"}

# Order of columns. Loads first, then what they cost beside themselves.
CATEGORIES = (
    "LDS.8",
    "LDS.16",
    "LDS.32",
    "LDS.64",
    "LDS.128",
    "LDSM.x1",
    "LDSM.x2",
    "LDSM.x4",
    "LDSM.x1.trans",
    "LDSM.x2.trans",
    "LDSM.x4.trans",
    "HMMA",
    "PRMT",
    "LOP3",
    "IMAD",
    "LEA",
    "IADD",
    "uniform",
    "BAR",
    "LDGSTS",
    "DEPBAR",
    "LDG",
    "STS",
    "local",
    "control",
    "NOP",
    "never",
    "other",
)


def category(instruction: Instruction) -> str:
    """The column an instruction is counted in. Raises SassError for a form of LDS or LDSM that is not known."""
    base, modifiers = instruction.base, set(instruction.modifiers)
    if instruction.guard in ("!PT", "!UPT"):
        return "never"  # ptxas puts `@!PT LDS RZ, [RZ]` before predicated cp.async: an issue slot, not a load
    if base == "LDS":
        widths = [_LDS_BITS[m] for m in modifiers if m in _LDS_BITS]
        if len(widths) > 1 or modifiers - set(_LDS_BITS):
            raise SassError(f"{instruction.opcode} at {instruction.address:#x}: unknown form of LDS")
        return f"LDS.{widths[0] if widths else 32}"
    if base == "LDSM":
        tiles = modifiers & {"2", "4"}
        if "16" not in modifiers or not modifiers & {"M88", "MT88"} or modifiers - {"16", "M88", "MT88", "2", "4"}:
            raise SassError(f"{instruction.opcode} at {instruction.address:#x}: unknown form of LDSM")
        return f"LDSM.x{tiles.pop() if tiles else 1}{'.trans' if 'MT88' in modifiers else ''}"
    if base in ("LDL", "STL"):
        return "local"
    if base in ("HMMA", "NOP"):
        return base
    if base in _INTEGER:
        return _INTEGER[base]
    if base in _COPY:
        return _COPY[base]
    if base in _CONTROL:
        return "control"
    if base.startswith(("U", "R2U")):
        return "uniform"
    return "other"


def _bytes_of(name: str) -> int:
    """Bytes that one warp-wide load of a category brings into registers."""
    if name.startswith("LDS."):
        return _WARP * int(name[4:]) // 8
    if name.startswith("LDSM."):
        return 128 * int(name[6])
    return 0


@dataclass(frozen=True)
class LoopCounts:
    """The main loop of one kernel: instructions by category, and how many k-steps they make."""

    header: int
    last: int
    ksteps: int
    counts: Mapping[str, int]
    folded: int  # registers that its xors consume: the sink of a load-only kernel

    def per_kstep(self, name: str) -> float:
        """Instructions of a category per warp and k-step."""
        return self.counts.get(name, 0) / self.ksteps

    @property
    def loads(self) -> float:
        """Shared-memory load instructions per warp and k-step: what the design calls 32, 24, 8, 8."""
        return sum(self.counts[name] for name in self.counts if _bytes_of(name)) / self.ksteps

    @property
    def issue_slots(self) -> float:
        """All instructions per warp and k-step; each takes an issue slot."""
        return sum(self.counts.values()) / self.ksteps


def registers_folded(loop: Loop) -> int:
    """Registers that the loop's xors consume: an xor of n distinct registers folds n - 1 of them into one."""
    folded = 0
    for instruction in loop.instructions:
        # LOP3.LUT d, a, b, c, table, predicate: 0x96 is a ^ b ^ c, 0x3c is a ^ b
        if instruction.base == "LOP3" and instruction.operands[-2:-1] in (("0x96",), ("0x3c",)):
            sources = {op.split(".")[0] for op in instruction.operands[1:-2] if op.startswith("R") and op != "RZ"}
            folded += max(0, len(sources) - 1)
    return folded


def count_loop(function: Function, *, loads: bool, mma: bool) -> LoopCounts:
    """Count the main loop of a kernel that ``loads`` fragments, runs ``mma``, or both.

    Raises SassError when there is not exactly one such loop, when it holds no whole number of k-steps, when mma and
    bytes disagree on that number, or when the sink of a load-only loop consumes fewer registers than were loaded.
    """
    sizes = layout().constants
    if mma:
        loop = main_loop(function, lambda i: i.base == "HMMA", "an mma (HMMA)")
    else:
        loop = main_loop(function, lambda i: i.base in ("LDS", "LDSM"), "a shared-memory load (LDS, LDSM)")
    counts = Counter(category(instruction) for instruction in loop.instructions)
    for instruction in loop.instructions:
        if instruction.base == "HMMA" and "16816" not in instruction.modifiers:
            raise SassError(
                f"{function.name}: {instruction.opcode} is not the m16n8k16 mma that k-steps are counted by"
            )

    mma_per_kstep = sizes.m_fragments * sizes.n_fragments
    loaded = sum(_bytes_of(name) * count for name, count in counts.items())
    found: dict[str, float] = {}
    if mma:
        found["mma"] = counts["HMMA"] / mma_per_kstep
    elif counts["HMMA"]:
        raise SassError(f"{function.name}: {counts['HMMA']} mma in a loop that should only load")
    if loads:
        found["bytes loaded"] = loaded / sizes.bytes_per_kstep
    elif loaded:
        raise SassError(f"{function.name}: {loaded} bytes loaded in a loop that should only run mma")
    steps = set(found.values())
    if len(steps) != 1 or not all(step >= 1 and step.is_integer() for step in steps):
        said = " and ".join(f"{value:g} by {name}" for name, value in found.items())
        raise SassError(
            f"{function.name}: the loop at {loop.header:#x} holds {said} k-steps; expected one whole number"
        )
    ksteps = int(steps.pop())

    folded = registers_folded(loop)
    if loads and not mma and folded < loaded // (4 * _WARP):
        raise SassError(
            f"{function.name}: the loop loads {loaded // (4 * _WARP)} registers and its sink consumes {folded}; "
            f"the sink is dead or lies outside the loop"
        )
    return LoopCounts(loop.header, loop.last, ksteps, dict(counts), folded)


@dataclass(frozen=True)
class KernelSpec:
    """What the caller knows of a kernel from its template arguments."""

    labels: Mapping[str, Any]  # variant, swizzle, work, ...: the first columns of its row
    loads: bool
    mma: bool
    threads: int
    dynamic_shared_bytes: Callable[[LoopCounts], int]


@dataclass(frozen=True)
class Kernel:
    """One kernel on one architecture: its loop, its resources, how many blocks an SM holds."""

    arch: int
    name: str
    labels: Mapping[str, Any]
    loop: LoopCounts
    resources: Resources
    spill_instructions: int  # LDL and STL anywhere in the kernel
    shared_bytes: int
    residency: Residency | None

    def row(self) -> dict[str, Any]:
        """One flat row: labels, per-k-step counts, resources."""
        return {
            "arch": self.arch,
            **self.labels,
            "loads": self.loop.loads,
            **{name: self.loop.per_kstep(name) for name in CATEGORIES},
            "issue_slots": self.loop.issue_slots,
            "ksteps_per_loop": self.loop.ksteps,
            "registers": self.resources.registers,
            "stack_bytes": self.resources.stack_bytes,
            "spill_instructions": self.spill_instructions,
            "shared_bytes": self.shared_bytes,
            "resident_blocks": self.residency.blocks if self.residency else None,
            "limited_by": self.residency.limiter if self.residency else None,
            "kernel": self.name,
        }


def analyse_cubin(
    cubin: Path, describe: Callable[[str], KernelSpec | None], *, tool: Tool | None = None
) -> list[Kernel]:
    """Every kernel of a cubin that ``describe`` (mangled name to spec) knows, in its order in the file.

    Raises UserError: no cubin, no disassembler. Raises SassError: a loop that cannot be counted, or no such kernel.
    """
    resources = read_resources(cubin)
    kernels = []
    for function in disassemble(cubin, tool):
        spec = describe(function.name)
        if spec is None:
            continue
        loop = count_loop(function, loads=spec.loads, mma=spec.mma)
        needs = resources[function.name]
        shared = needs.static_shared_bytes + spec.dynamic_shared_bytes(loop)
        kernels.append(
            Kernel(
                arch=function.arch,
                name=function.name,
                labels=spec.labels,
                loop=loop,
                resources=needs,
                spill_instructions=sum(category(i) == "local" for i in function.instructions),
                shared_bytes=shared,
                residency=resident_blocks(
                    function.arch, registers=needs.registers, threads=spec.threads, shared_bytes=shared
                ),
            )
        )
    if not kernels:
        raise SassError(f"{cubin}: holds none of the kernels that are looked for")
    return kernels


def in_parallel(work: Callable[[Item], list[Kernel]], items: Iterable[Item]) -> list[Kernel]:
    """``work`` (compile and analyse) for every item, a thread per core; results in the order of ``items``."""
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return [kernel for kernels in pool.map(work, items) for kernel in kernels]
