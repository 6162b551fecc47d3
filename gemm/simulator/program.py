"""What does a warp execute in one pass of a kernel's main loop, and what does each instruction wait for?

ptxas schedules: every 128-bit instruction says how many cycles to stall after it, which of six scoreboards it sets
when its result arrives or its operands are read, and which it waits for. These bits are read from the encodings that
cuobjdump and nvdisasm print, so no dependence is guessed. The trap: an instruction guarded by @!PT is issued and does
nothing, and a loop that can skip a part (no more tiles to load) is followed on the path that skips least.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from micro.code.sass import Function, Instruction, SassError, parse_sass
from micro.gpu.toolchain import disassembler
from stats.base.errors import UserError

SCOREBOARDS = 6
_NONE = 7
QUEUED = ("load", "blank", "store", "copy", "commit", "global")  # kinds that go through a sub-partition's memory queue

OpKind = Literal[
    "plain",
    "alu",
    "fma",
    "uniform",
    "mma",
    "load",
    "blank",
    "store",
    "copy",
    "global",
    "commit",
    "wait",
    "barrier",
    "other",
]

_ALU = {
    "LOP3",
    "PRMT",
    "IADD3",
    "IADD",
    "VIADD",
    "ISETP",
    "SHF",
    "LEA",
    "SEL",
    "PLOP3",
    "MOV",
    "VIMNMX",
    "IMNMX",
    "P2R",
}
_FMA = {"IMAD", "FFMA", "FMUL", "FADD", "HFMA2"}
_VARIABLE = {"LDC", "S2R", "S2UR", "SHFL", "R2UR", "ULDC", "LDCU", "CS2R", "POPC", "VOTE"}


@dataclass(frozen=True)
class Control:
    """The scheduling bits of one instruction; scoreboards are 0..5, None where none is set."""

    stall_cycles: int
    sets_on_result: int | None
    sets_on_read: int | None
    waits_for: tuple[int, ...]


def decode_control(upper_word: int) -> Control:
    """Scheduling bits from the upper 64 bits of an instruction of sm_80 and later.

    Bits 105..125 of 128: stall (4), yield, scoreboard set on result (3), on operand read (3), wait mask (6), reuse (4).
    Source: Jia et al. 2018, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", section 2.1; the
    layout has not changed since.
    """
    bits = upper_word >> 41
    result, read, mask = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
    return Control(
        stall_cycles=bits & 15,
        sets_on_result=None if result == _NONE else result,
        sets_on_read=None if read == _NONE else read,
        waits_for=tuple(b for b in range(SCOREBOARDS) if mask >> b & 1),
    )


@dataclass(frozen=True)
class Op:
    """One instruction as the simulator sees it.

    ``wavefronts`` of shared-memory traffic (loads, stores); ``addresses``: lanes whose address a load reads;
    ``argument``: groups that a wait leaves pending; ``lines``: 128-byte lines of global memory that a copy touches.
    """

    kind: OpKind
    stall_cycles: int = 1
    sets_on_result: int | None = None
    sets_on_read: int | None = None
    waits_for: tuple[int, ...] = ()
    wavefronts: int = 0
    addresses: int = 32
    argument: int = 0
    lines: float = 0
    text: str = ""


@dataclass(frozen=True)
class Program:
    """One pass through a main loop: its ops and the k-steps they make."""

    name: str
    arch: int
    ops: tuple[Op, ...]
    ksteps: int

    def count(self, *kinds: OpKind) -> int:
        """Ops of these kinds."""
        return sum(op.kind in kinds for op in self.ops)

    @property
    def wavefronts(self) -> int:
        """Wavefronts of one pass of one warp, loads and stores together."""
        return sum(op.wavefronts for op in self.ops)


_NAME = re.compile(r"^\s*(?:Function : |\.section\s+\.text\.)([^\s,]+)")
_FIRST = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/.*;\s*/\* 0x[0-9a-f]{16} \*/")
_SECOND = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")


def parse_controls(text: str) -> dict[str, dict[int, Control]]:
    """Function name -> instruction address -> scheduling bits, from a disassembly with encodings by either tool."""
    found: dict[str, dict[int, Control]] = {}
    name: str | None = None
    address: int | None = None
    for line in text.splitlines():
        if match := _NAME.match(line):
            name, address = match[1].strip('"'), None
        elif match := _FIRST.match(line):
            address = int(match[1], 16)
        elif address is not None and name is not None and (match := _SECOND.match(line)):
            found.setdefault(name, {})[address] = decode_control(int(match[1], 16))
            address = None
    return found


def read_cubin(cubin: Path) -> list[tuple[Function, dict[int, Control]]]:
    """Every function of a cubin with the scheduling bits of its instructions. Raises UserError or SassError."""
    try:
        command = [str(disassembler("nvdisasm")), "-c", "-hex", str(cubin)]
    except UserError:
        command = [str(disassembler("cuobjdump")), "-sass", str(cubin)]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if answer.returncode != 0:
        raise UserError(f"{cubin}: cannot be disassembled ({(answer.stderr.strip() or 'no message').splitlines()[0]})")
    controls = parse_controls(answer.stdout)
    pairs = []
    for function in parse_sass(answer.stdout):
        bits = controls.get(function.name, {})
        missing = [i for i in function.instructions if i.address not in bits]
        if missing:
            raise SassError(f"{function.name}: no encoding for the instruction at {missing[0].address:#x}")
        pairs.append((function, bits))
    return pairs


def _kind(instruction: Instruction) -> OpKind:
    base = instruction.base
    if instruction.guard == "!PT":
        return "blank" if base == "LDS" else "plain"
    if base in ("LDS", "LDSM"):
        return "load"
    if base in ("STS", "STSM"):
        return "store"
    if base in ("HMMA", "IMMA", "DMMA"):
        return "mma"
    if base == "LDGSTS":
        return "copy"
    if base == "LDG":
        return "global"
    if base == "LDGDEPBAR":
        return "commit"
    if base == "DEPBAR":
        return "wait"
    if base == "BAR":
        return "barrier"
    if base in _VARIABLE:
        return "other"
    if base in _ALU:
        return "alu"
    if base in _FMA:
        return "fma"
    return "uniform" if base.startswith("U") else "plain"


def _addresses(instruction: Instruction) -> int:
    """Lanes that give an address: ldmatrix takes 8 a matrix, every other access all 32."""
    if instruction.base != "LDSM":
        return 32
    return 8 * next((int(modifier) for modifier in instruction.modifiers if modifier in ("2", "4")), 1)


def _pending(instruction: Instruction) -> int:
    """``DEPBAR.LE SB0, 0x1``: how many groups may still be under way."""
    return int(instruction.operands[1], 16) if len(instruction.operands) > 1 else 0


def to_ops(
    instructions: Sequence[Instruction],
    controls: dict[int, Control],
    wavefronts_of: Callable[[Instruction], int],
    copy_lines: float = 0,
) -> tuple[Op, ...]:
    """Instructions of a loop in the order they run, with ``wavefronts_of`` each load and store of shared memory.

    ``copy_lines``: lines of global memory that a warp-wide copy touches, the mean over the copies of a tile.
    """
    ops = []
    for instruction in instructions:
        bits, kind = controls[instruction.address], _kind(instruction)
        ops.append(
            Op(
                kind=kind,
                stall_cycles=bits.stall_cycles,
                sets_on_result=None if kind == "commit" else bits.sets_on_result,
                sets_on_read=bits.sets_on_read,
                waits_for=bits.waits_for,
                wavefronts=wavefronts_of(instruction) if kind in ("load", "store") else 0,
                addresses=_addresses(instruction),
                argument=_pending(instruction) if kind == "wait" else 0,
                lines=copy_lines if kind in ("copy", "global") else 0,
                text=f"{instruction.opcode} {', '.join(instruction.operands)}",
            )
        )
    return tuple(ops)
