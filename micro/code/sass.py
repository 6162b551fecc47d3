"""What instructions does a cubin hold? Disassembly by cuobjdump or nvdisasm, read into functions of instructions.

Both tools print an offset in a comment, the instruction and a semicolon; cuobjdump names branch targets by offset,
nvdisasm by label, which is resolved here, so that everything after this file sees one form. The trap: a tool that
meets a file it does not know may exit with success and print nothing, so an empty answer is an error too.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from micro.gpu.toolchain import disassembler
from stats.base.errors import BenchError, UserError

Tool = Literal["cuobjdump", "nvdisasm"]
_COMMANDS: dict[Tool, list[str]] = {"cuobjdump": ["-sass"], "nvdisasm": ["-c"]}


class SassError(BenchError):
    """Machine code that is not as the analysis expects: no count is given rather than a wrong one."""


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: ``@P0 BRA 0x40`` has guard ``P0``, opcode ``BRA`` and target 0x40."""

    address: int
    guard: str | None
    opcode: str  # with its modifiers: LDSM.16.MT88.2
    operands: tuple[str, ...]
    target: int | None = None

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".", 1)[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """What follows the opcode after dots."""
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True)
class Function:
    """One kernel as disassembled."""

    name: str  # mangled
    arch: int
    instructions: tuple[Instruction, ...]


_ARCH = re.compile(r"^\s*(?:code for|\.target)\s+sm_(\d+)")
_NAME = re.compile(r"^\s*(?:Function : |\.section\s+\.text\.)([^\s,]+)")
_LABEL = re.compile(r"^(\.L_[\w$]+):")
_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[T\d]+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"(?:`\((\.L_[\w$]+)\)|0x([0-9a-f]+))$")
_BRANCHES = {"BRA", "JMP", "CALL", "BSSY"}


def parse_sass(text: str) -> list[Function]:
    """Functions of a disassembly by either tool. Raises SassError for text without architecture or functions."""
    arch: int | None = None
    functions: list[Function] = []
    pending: list[tuple[int, str | None, str, str]] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []  # labels in front of the next instruction
    name: str | None = None

    def finish() -> None:
        nonlocal name
        if name is not None and pending:
            if arch is None:
                raise SassError(f"{name}: disassembly names no architecture")
            functions.append(Function(name, arch, tuple(_instructions(pending, labels, name))))
        name = None
        pending.clear()
        labels.clear()
        waiting.clear()

    for line in text.splitlines():
        if found := _ARCH.match(line):
            arch = int(found[1])
        elif found := _NAME.match(line):
            finish()
            name = found[1]
        elif found := _LABEL.match(line):
            waiting.append(found[1])
        elif name is not None and (found := _LINE.match(line)):
            address = int(found[1], 16)
            labels.update(dict.fromkeys(waiting, address))
            waiting.clear()
            pending.append((address, found[2], found[3], found[4]))
    finish()
    if not functions:
        raise SassError("disassembly holds no function with instructions")
    return functions


def _instructions(
    lines: Iterable[tuple[int, str | None, str, str]], labels: dict[str, int], function: str
) -> Iterable[Instruction]:
    for address, guard, opcode, rest in lines:
        operands = tuple(part.strip() for part in rest.split(",")) if rest else ()
        target = None
        if opcode.split(".", 1)[0] in _BRANCHES:
            found = _TARGET.search(rest)
            if found is None or (found[1] is not None and found[1] not in labels):
                raise SassError(f"{function}: target of '{opcode} {rest}' at {address:#x} not understood")
            target = labels[found[1]] if found[1] is not None else int(found[2], 16)
            operands = (*operands[:-1], f"{target:#x}")
        yield Instruction(address, guard.lstrip("@") if guard else None, opcode, operands, target)


def _pick_tool(tool: Tool | None) -> tuple[Tool, Path]:
    missing = []
    for name in (tool,) if tool else tuple(_COMMANDS):
        try:
            return name, disassembler(name)
        except UserError as error:
            missing.append(str(error))
    raise UserError(missing[0] if tool else f"no disassembler: {'; '.join(missing)}")


def disassemble(cubin: Path, tool: Tool | None = None) -> list[Function]:
    """Functions of a cubin by ``tool``, or by whichever of cuobjdump and nvdisasm there is.

    Raises UserError: no such tool, no such file, a file that is no cubin or too new for the tool.
    """
    name, path = _pick_tool(tool)
    if not cubin.exists():
        raise UserError(f"{cubin}: no such file")
    answer = subprocess.run(
        [str(path), *_COMMANDS[name], str(cubin)], capture_output=True, text=True, errors="replace", check=False
    )
    try:
        return parse_sass(answer.stdout)
    except SassError as error:
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        if answer.returncode == 0 and not said:
            raise
        raise UserError(f"{cubin}: not a cubin that {name} can read ({said[0] if said else error})") from None
