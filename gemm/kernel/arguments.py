"""What may be passed to a kernel? Each error names the argument or the dimension and the rule, before any launch.

The kernels check nothing: a bad pointer faults, a bad shape reads beyond a matrix. Tensors are judged by their
attributes alone, so these checks run, and are tested, without a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from micro.model.variants import BLayout
from stats.base.errors import UserError

TILE = {"m": 128, "n": 128, "k": 32}  # of layout.cuh; a test holds them equal
ALIGNMENT_BYTES = 16  # cp.async and ld.global move 16 bytes
_LARGEST_INT = 2**31 - 1
_ELEMENT_BYTES = 2
Shape = tuple[int, int, int]


def parse_shape(text: str) -> Shape:
    """``4096x4096x4096`` as (m, n, k). Raises UserError for anything else, and what ``check_shape`` raises."""
    match = re.fullmatch(r"\s*([+-]?\d+)\s*[x×X]\s*([+-]?\d+)\s*[x×X]\s*([+-]?\d+)\s*", text)
    if match is None:
        raise UserError(f"shape {text!r}: write it as MxNxK, for example 4096x4096x4096")
    if any(len(part) > 20 for part in match.groups()):
        raise UserError(f"shape {text[:40]!r}…: a dimension may be at most {_LARGEST_INT}")
    m, n, k = (int(part) for part in match.groups())
    check_shape(m, n, k)
    return m, n, k


def check_shape(m: int, n: int, k: int) -> None:
    """Raise UserError naming the first dimension that is not a positive multiple of the tile or too large to index."""
    for name, value in (("m", m), ("n", n), ("k", k)):
        tile = TILE[name]
        if value <= 0:
            raise UserError(f"shape {m}x{n}x{k}: {name} = {value} is not positive; it must be a multiple of {tile}")
        if value % tile:
            below, above = value // tile * tile, -(-value // tile) * tile
            nearest = f"{below} and {above}" if below else f"{above}"
            raise UserError(f"shape {m}x{n}x{k}: {name} = {value} is not a multiple of {tile}; nearest: {nearest}")
        if value > _LARGEST_INT:
            raise UserError(f"shape {m}x{n}x{k}: {name} = {value} is above {_LARGEST_INT}, the largest index")
    blocks = (m // TILE["m"]) * (n // TILE["n"])
    if blocks > _LARGEST_INT:
        raise UserError(f"shape {m}x{n}x{k}: m and n make {blocks} blocks, above {_LARGEST_INT}, the largest grid")


def check_memory(m: int, n: int, k: int, free_bytes: int, dtypes: int = 1) -> None:
    """Raise UserError when operands and the float64 reference of ``dtypes`` element types exceed ``free_bytes``."""
    operands = _ELEMENT_BYTES * (m * k + 2 * k * n + 2 * m * n)
    reference = 8 * (m * k + k * n + 3 * m * n)
    needed = dtypes * operands + reference
    if needed > free_bytes:
        largest = max((("m", m), ("n", n), ("k", k)), key=lambda pair: pair[1])[0]
        raise UserError(
            f"shape {m}x{n}x{k}: needs {needed / 2**30:.1f} GiB on the device, {free_bytes / 2**30:.1f} GiB are free; "
            f"choose a smaller {largest}"
        )


def _check_tensor(name: str, tensor: Any, shape: Sequence[int], dtype: Any, device: Any) -> None:
    if getattr(tensor.device, "type", None) != "cuda":
        raise UserError(f"{name}: is on {tensor.device}, must be on a CUDA device")
    if device is not None and tensor.device != device:
        raise UserError(f"{name}: is on {tensor.device}, the other tensors are on {device}")
    if tensor.dtype != dtype:
        raise UserError(f"{name}: has dtype {tensor.dtype}, the kernel computes in {dtype}")
    if tuple(tensor.shape) != tuple(shape):
        raise UserError(f"{name}: has shape {tuple(tensor.shape)}, must be {tuple(shape)}")
    if not tensor.is_contiguous():
        raise UserError(f"{name}: is not contiguous; rows must follow each other without gaps")
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        raise UserError(f"{name}: address {tensor.data_ptr():#x} is not a multiple of {ALIGNMENT_BYTES} bytes")


def check_tensors(a: Any, b: Any, c: Any, b_layout: BLayout, dtype: Any) -> Shape:
    """Check the three matrices of one launch and return (m, n, k).

    ``a`` [m, k]; ``b`` [k, n], or [n, k] where ``b_layout`` is transposed; ``c`` [m, n]; all of ``dtype``, on one
    device. Raises UserError.
    """
    for name, tensor in (("a", a), ("b", b), ("c", c)):
        if len(tensor.shape) != 2:
            raise UserError(f"{name}: has {len(tensor.shape)} dimensions, must be a matrix")
    m, k = (int(size) for size in a.shape)
    n = int(c.shape[1])
    check_shape(m, n, k)
    _check_tensor("a", a, (m, k), dtype, None)
    _check_tensor("b", b, (k, n) if b_layout is BLayout.NATURAL else (n, k), dtype, a.device)
    _check_tensor("c", c, (m, n), dtype, a.device)
    return m, n, k
