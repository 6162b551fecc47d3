"""Which loop of a kernel is its main loop?

Basic blocks, dominators, natural loops; the main loop is the innermost one that holds what the caller looks for.
Blocks that the compiler moved out of line belong to their loop by control flow, not by address, and a rotated loop is
found like any other. Whatever would make a count wrong (several candidates, none, a second entry, an indirect branch,
a slow path that repeats instructions for diverged warps) is an error. The trap: ptxas leaves a loop through
``CALL.REL.NOINC`` on older architectures, so a call ends a block as a branch does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from micro.code.sass import Function, Instruction, SassError

_NO_SUCCESSOR = {"EXIT", "RET", "KILL", "BPT"}
_INDIRECT = {"BRX", "JMX", "BRXU", "JMXU"}
_ENDS_BLOCK = {"BRA", "JMP", "CALL", "BSYNC"} | _NO_SUCCESSOR | _INDIRECT


@dataclass(frozen=True)
class Loop:
    """A natural loop: the address of its header and its instructions in order of address."""

    function: str
    header: int
    instructions: tuple[Instruction, ...]

    @property
    def last(self) -> int:
        """The highest address in the loop."""
        return self.instructions[-1].address

    def __contains__(self, other: Loop) -> bool:
        mine = {instruction.address for instruction in self.instructions}
        return self is not other and all(instruction.address in mine for instruction in other.instructions)


def _is_conditional(instruction: Instruction) -> bool:
    # `BRA.U UP0, target`: on newer architectures the predicate is an operand.
    return instruction.guard is not None or len(instruction.operands) > 1


def _reconvergence(function: Function, sync: Instruction) -> int:
    """Where the warp goes on after a BSYNC: the target of the nearest BSSY before it on the same barrier register."""
    opened = [
        instruction.target
        for instruction in function.instructions
        if instruction.base == "BSSY"
        and instruction.operands[0] == sync.operands[0]
        and instruction.address < sync.address
        and instruction.target is not None
    ]
    if not opened:
        raise SassError(f"{function.name}: BSYNC at {sync.address:#x} without a BSSY before it")
    return opened[-1]


def _blocks(function: Function) -> tuple[list[list[Instruction]], list[list[int]]]:
    """Basic blocks in order of address, and the successors of each."""
    code = function.instructions
    index = {instruction.address: i for i, instruction in enumerate(code)}
    starts = {0}
    for i, instruction in enumerate(code):
        if instruction.target is not None:
            if instruction.target not in index:
                raise SassError(f"{function.name}: branch at {instruction.address:#x} leaves the function")
            starts.add(index[instruction.target])
        if instruction.base in _ENDS_BLOCK and i + 1 < len(code):
            starts.add(i + 1)
    order = sorted(starts)
    blocks = [list(code[first:last]) for first, last in zip(order, [*order[1:], len(code)], strict=True)]
    block_at = {block[0].address: b for b, block in enumerate(blocks)}

    successors: list[list[int]] = []
    for b, block in enumerate(blocks):
        last = block[-1]
        after = [b + 1] if b + 1 < len(blocks) else []
        if last.base in _INDIRECT:
            raise SassError(f"{function.name}: indirect branch {last.opcode} at {last.address:#x}")
        if last.base in _NO_SUCCESSOR:
            successors.append(after if last.guard is not None else [])
        elif last.base == "BSYNC":
            successors.append([block_at[_reconvergence(function, last)]])
        elif last.base in _ENDS_BLOCK and last.target is not None:
            stays = after if _is_conditional(last) or last.base == "CALL" else []
            successors.append(sorted({block_at[last.target], *stays}))
        else:
            successors.append(after)
    return blocks, successors


def _dominators(successors: list[list[int]]) -> dict[int, set[int]]:
    """Dominators of every block that the entry reaches."""
    reached, queue = {0}, [0]
    while queue:
        for after in successors[queue.pop()]:
            if after not in reached:
                reached.add(after)
                queue.append(after)
    before: dict[int, list[int]] = {b: [] for b in reached}
    for b in reached:
        for after in successors[b]:
            before[after].append(b)
    dominators = {b: set(reached) for b in reached}
    dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for b in sorted(reached - {0}):
            now = {b}.union(set.intersection(*(dominators[p] for p in before[b])))
            if now != dominators[b]:
                dominators[b], changed = now, True
    return dominators


def natural_loops(function: Function) -> list[Loop]:
    """Every natural loop, those with one header merged. Raises SassError for a loop with two entries."""
    blocks, successors = _blocks(function)
    dominators = _dominators(successors)
    members: dict[int, set[int]] = {}
    for tail in dominators:
        for header in successors[tail]:
            if header in dominators[tail]:
                body = members.setdefault(header, {header})
                queue = [tail]
                while queue:
                    b = queue.pop()
                    if b not in body:
                        body.add(b)
                        queue += [p for p in dominators if b in successors[p]]
            elif _reaches(successors, header, tail, dominators):
                raise SassError(f"{function.name}: the loop at {blocks[header][0].address:#x} has two entries")
    return [
        Loop(
            function.name,
            blocks[header][0].address,
            tuple(instruction for b in sorted(body) for instruction in blocks[b]),
        )
        for header, body in sorted(members.items())
        # the idle loop that pads the end of every kernel is no loop of the program
        if not all(instruction.base in ("BRA", "NOP") for b in body for instruction in blocks[b])
    ]


def _reaches(successors: list[list[int]], start: int, goal: int, dominators: dict[int, set[int]]) -> bool:
    """Can ``start`` come back to ``goal`` without passing a block that dominates both, the header of a loop?"""
    outer = dominators[start] & dominators[goal]
    seen, queue = {start}, [start]
    while queue:
        b = queue.pop()
        if b == goal:
            return True
        for after in successors[b]:
            if after not in seen and after not in outer:
                seen.add(after)
                queue.append(after)
    return False


def main_loop(function: Function, holds: Callable[[Instruction], bool], what: str) -> Loop:
    """The innermost loop with an instruction for which ``holds``; ``what`` names that for the message.

    Raises SassError: no loop, no such loop, several, or one whose count would be wrong.
    """
    loops = natural_loops(function)
    if not loops:
        raise SassError(f"{function.name}: no loop at all")
    fitting = [loop for loop in loops if any(holds(instruction) for instruction in loop.instructions)]
    if not fitting:
        raise SassError(f"{function.name}: no loop holds {what}; the compiler removed it or moved it out of the loop")
    innermost = [loop for loop in fitting if not any(other in loop for other in fitting)]
    if len(innermost) > 1:
        places = ", ".join(f"{loop.header:#x}" for loop in innermost)
        raise SassError(f"{function.name}: {len(innermost)} loops hold {what} (at {places}): which one counts?")
    for instruction in innermost[0].instructions:
        if instruction.base == "BRA" and {"DIV", "CONV"} & set(instruction.modifiers):
            raise SassError(
                f"{function.name}: the loop at {innermost[0].header:#x} has a slow path for diverged warps "
                f"({instruction.opcode} at {instruction.address:#x}) that would be counted too"
            )
    return innermost[0]
