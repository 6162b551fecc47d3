"""Which instructions does a warp issue in one steady pass through a loop that has branches inside?

The GEMM's loop can leave in the middle (no more tiles) and can skip its copies (nothing left to load). In the steady
state it does neither: of all ways from the header back to it, the one with the most copies, then the most
instructions, is the steady pass. The trap: code that the compiler moved out of line is part of the pass although its
address is not in order.
"""

from __future__ import annotations

from micro.code.loops import Loop
from micro.code.sass import Instruction, SassError

_COPIES = {"LDGSTS", "LDG", "STS"}


def _next(code: list[Instruction], index: dict[int, int], at: int, header: int) -> list[int | None]:
    """Positions that may follow; None stands for the way back to the header. Ways out of the loop are left out."""
    instruction = code[at]
    ways: list[int] = []
    if instruction.target is not None and instruction.base in ("BRA", "JMP"):
        ways.append(instruction.target)
        if instruction.guard is not None or len(instruction.operands) > 1:
            ways.append(instruction.address + 16)
    else:
        ways.append(instruction.address + 16)
    return [None if way == header else index[way] for way in ways if way == header or way in index]


def steady_pass(loop: Loop) -> list[Instruction]:
    """The instructions of one pass in the order they are issued. Raises SassError when no way leads back."""
    code = list(loop.instructions)
    index = {instruction.address: i for i, instruction in enumerate(code)}
    best: dict[int, tuple[tuple[int, int], int | None] | None] = {}
    start = index[loop.header]
    # Longest way through an acyclic graph, by an explicit stack: loops of thousands of instructions are deep.
    stack = [start]
    open_: set[int] = set()
    while stack:
        at = stack[-1]
        if at in best:
            stack.pop()
            continue
        ways = _next(code, index, at, loop.header)
        waiting = [way for way in ways if way is not None and way not in best]
        if waiting and at not in open_:
            open_.add(at)
            stack += waiting
            continue
        if waiting:
            raise SassError(f"{loop.function}: a loop inside the loop at {loop.header:#x}")
        found: tuple[tuple[int, int], int | None] | None = None
        weight = (code[at].base in _COPIES and code[at].guard != "!PT", 1)
        for way in ways:
            rest = ((0, 0), None) if way is None else best[way]
            if rest is not None:
                score = (rest[0][0] + weight[0], rest[0][1] + weight[1])
                if found is None or score > found[0]:
                    found = (score, way)
        best[at] = found
        open_.discard(at)
        stack.pop()
    order: list[Instruction] = []
    here: int | None = start
    while here is not None:
        step = best[here]
        if step is None:
            raise SassError(f"{loop.function}: no way back to the header of the loop at {loop.header:#x}")
        order.append(code[here])
        here = step[1]
    return order
