"""What does ptxas say a kernel needs: registers, stack, static shared memory? And which template instance is it?

A cubin is an ELF64 file; ``.nv.info`` holds one attribute per kernel and resource, ``.nv.shared.<kernel>`` its static
shared memory. Read here directly, so that the figures need no tool and no tool's text format. The traps: from sm_90
on the shared section includes the kilobyte that the system reserves per block, which is no kernel's own; and a
mangled name repeats a namespace as a substitution (``S1_``), so template arguments are parsed, not searched for.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from stats.base.errors import UserError, unreadable

RESERVED_SHARED_BYTES = 1024  # per block, sm_80 and newer
_EM_CUDA = 190
_SHT_SYMTAB = 2
_EIATTR_FRAME_SIZE, _EIATTR_REGCOUNT = 0x11, 0x2F
_EIFMT_SVAL = 4  # format, attribute, 2-byte size, payload; every other format is 4 bytes in all


@dataclass(frozen=True)
class Resources:
    """What one thread or block of a kernel occupies."""

    registers: int
    stack_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Instance:
    """A template instance: the function's own name and its arguments, values as int, types by name."""

    function: str
    arguments: tuple[int | str, ...]


def _name_at(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def _attributes(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(data):
        kind, attribute, size = struct.unpack_from("<BBH", data, at)
        payload = data[at + 4 : at + 4 + size] if kind == _EIFMT_SVAL else b""
        found.append((attribute, payload))
        at += 4 + len(payload)
    return found


def read_resources(cubin: Path) -> dict[str, Resources]:
    """Mangled kernel name -> its resources. Raises UserError when the file is missing or no cubin."""
    try:
        data = cubin.read_bytes()
    except OSError as error:
        raise unreadable(cubin, error) from None
    if data[:5] != b"\x7fELF\x02" or len(data) < 64 or struct.unpack_from("<H", data, 18)[0] != _EM_CUDA:
        raise UserError(f"{cubin}: not a cubin (no 64-bit CUDA ELF header); compile one with nvcc -cubin")
    try:
        return _resources(data)
    except (struct.error, ValueError, IndexError, KeyError):
        raise UserError(f"{cubin}: a damaged or truncated cubin; compile it again") from None


def _resources(data: bytes) -> dict[str, Resources]:
    (table_at,) = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table_at + i * size) for i in range(count)]

    def body(header: tuple[int, ...]) -> bytes:
        return data[header[4] : header[4] + header[5]]

    section_names = body(headers[names_index])
    sections = {_name_at(section_names, header[0]): header for header in headers}
    symtab = next(header for header in headers if header[1] == _SHT_SYMTAB)
    symbol_names = body(headers[symtab[6]])
    symbols = [_name_at(symbol_names, name) for name, *_ in struct.iter_unpack("<IBBHQQ", body(symtab))]

    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for attribute, payload in _attributes(body(sections[".nv.info"])):
        if attribute in (_EIATTR_REGCOUNT, _EIATTR_FRAME_SIZE):
            symbol, value = struct.unpack("<II", payload[:8])
            (registers if attribute == _EIATTR_REGCOUNT else frames)[symbols[symbol]] = value

    reserved_in_section = RESERVED_SHARED_BYTES if ".nv.shared.reserved.0" in sections else 0
    kernels = {}
    for name in registers:
        if f".text.{name}" not in sections:
            continue
        shared = sections[f".nv.shared.{name}"][5] if f".nv.shared.{name}" in sections else reserved_in_section
        kernels[name] = Resources(registers[name], frames.get(name, 0), max(0, shared - reserved_in_section))
    return kernels


_LENGTH = re.compile(r"\d+")
_SUBSTITUTION = re.compile(r"S[0-9A-Z]*_|S[absiod]")
_VALUE = re.compile(r"(n?)(\d+)E")


def _identifier(text: str, at: int) -> tuple[str, int]:
    length = _LENGTH.match(text, at)
    if length is None:
        raise ValueError(text[at:])
    end = length.end() + int(length[0])
    return text[length.end() : end], end


def _type(text: str, at: int) -> tuple[str, int]:
    """The last name of the type at ``at`` (a substitution stays as it is) and where it ends."""
    if text.startswith("St", at):
        return _identifier(text, at + 2)
    if substitution := _SUBSTITUTION.match(text, at):
        return substitution[0], substitution.end()
    if text[at] == "N":
        at, name = at + 1, ""
        while text[at] != "E":
            if substitution := _SUBSTITUTION.match(text, at):
                at = substitution.end()
            else:
                name, at = _identifier(text, at)
        return name, at + 1
    if text[at].isdigit():
        return _identifier(text, at)
    if not text[at].islower():
        raise ValueError(text[at:])
    return text[at], at + 1  # a builtin type is one lower-case letter


def parse_instance(mangled: str, function: str) -> Instance | None:
    """The instance of template ``function`` that an Itanium-mangled name stands for; None if it is another function.

    Raises ValueError when it is this function but its arguments are of a kind not known here.
    """
    start = mangled.find(f"{len(function)}{function}I")
    if not mangled.startswith("_Z") or start < 0:
        return None
    at = start + len(f"{len(function)}{function}I")
    arguments: list[int | str] = []
    try:
        while mangled[at] != "E":
            if mangled[at] == "L":
                _, at = _type(mangled, at + 1)
                value = _VALUE.match(mangled, at)
                if value is None:
                    raise ValueError
                arguments.append(-int(value[2]) if value[1] else int(value[2]))
                at = value.end()
            else:
                name, at = _type(mangled, at)
                arguments.append(name)
    except (ValueError, IndexError):
        raise ValueError(f"{mangled}: template arguments of {function} not understood") from None
    return Instance(function, tuple(arguments))
