"""How many blocks of a kernel can one SM hold, by the limits of its architecture?

Limits are those of the CUDA C++ Programming Guide, "Compute Capabilities", table of technical specifications; the way
that registers and shared memory are handed out is that of NVIDIA's ``cuda_occupancy.h`` (CUDA 13.0). The traps:
registers go to a warp in units of 256 and warps to four sub-partitions, so the sum of registers is not the limit; and
each block also takes a kilobyte of shared memory that no kernel asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

_REGISTERS_PER_SM = 65536
_REGISTER_UNIT = 256  # per warp
SUB_PARTITIONS = 4  # of an SM: each has its own scheduler and tensor core
_SHARED_UNIT_BYTES = 128
_RESERVED_BYTES = 1024  # per block
_KIB = 1024


@dataclass(frozen=True)
class Limits:
    """What one SM holds at most."""

    blocks: int
    warps: int
    shared_bytes: int

    @property
    def shared_bytes_per_block(self) -> int:
        """The most that one block can opt in to."""
        return self.shared_bytes - _RESERVED_BYTES


# An architecture that nvcc knows but the guide does not list (sm_88) has no row: no figure rather than a guess.
LIMITS: dict[int, Limits] = {
    80: Limits(blocks=32, warps=64, shared_bytes=164 * _KIB),
    86: Limits(blocks=16, warps=48, shared_bytes=100 * _KIB),
    87: Limits(blocks=16, warps=48, shared_bytes=164 * _KIB),
    89: Limits(blocks=24, warps=48, shared_bytes=100 * _KIB),
    90: Limits(blocks=32, warps=64, shared_bytes=228 * _KIB),
    100: Limits(blocks=32, warps=64, shared_bytes=228 * _KIB),
    103: Limits(blocks=32, warps=64, shared_bytes=228 * _KIB),
    110: Limits(blocks=24, warps=48, shared_bytes=228 * _KIB),
    120: Limits(blocks=24, warps=48, shared_bytes=100 * _KIB),
    121: Limits(blocks=24, warps=48, shared_bytes=100 * _KIB),
}


@dataclass(frozen=True)
class Residency:
    """Blocks per SM and what stops one more."""

    blocks: int
    limiter: str


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def resident_blocks(arch: int, *, registers: int, threads: int, shared_bytes: int) -> Residency | None:
    """Blocks per SM of sm_``arch`` for a kernel of so many registers a thread, threads and shared bytes a block.

    ``shared_bytes`` is static plus dynamic. None for an architecture without published limits.
    """
    limits = LIMITS.get(arch)
    if limits is None:
        return None
    if shared_bytes > limits.shared_bytes_per_block:
        return Residency(0, "shared memory")
    warps = -(-threads // 32)
    per_warp = _round_up(registers * 32, _REGISTER_UNIT)
    warps_by_registers = _REGISTERS_PER_SM // SUB_PARTITIONS // per_warp * SUB_PARTITIONS
    candidates = {
        "blocks": limits.blocks,
        "warps": limits.warps // warps,
        "registers": warps_by_registers // warps,
        "shared memory": limits.shared_bytes // _round_up(shared_bytes + _RESERVED_BYTES, _SHARED_UNIT_BYTES),
    }
    limiter = min(candidates, key=lambda name: candidates[name])
    return Residency(candidates[limiter], limiter)
