"""The judge of outputs, on the CPU: right answers pass, and each mistake a kernel could make is found and named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from gemm.kernel.library import torch_dtype
from gemm.kernel.operands import Operands
from gemm.ladder.check import CHECK_SHAPES, Judge

with contextlib.suppress(ImportError):
    import torch

pytestmark = pytest.mark.torch

DTYPES = ("bf16", "fp16")


def operands(shape: tuple[int, int, int], dtype: str) -> Operands:
    m, n, k = shape
    generator = torch.Generator().manual_seed(7)
    a = torch.randn((m, k), generator=generator).to(torch_dtype(dtype))
    b = torch.randn((k, n), generator=generator).to(torch_dtype(dtype))
    return Operands(a, b, b.t().contiguous(), torch.empty((m, n), dtype=torch_dtype(dtype)))


def product(made: Operands) -> torch.Tensor:
    """What a right kernel computes: fp32 accumulation, rounded once."""
    return (made.a.float() @ made.b.float()).to(made.a.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*CHECK_SHAPES[:3], (128, 128, 4096)])
def test_a_right_answer_passes(shape: tuple[int, int, int], dtype: str) -> None:
    made = operands(shape, dtype)
    assert Judge(made, dtype).problems(product(made)) == []


def not_written(made: Operands) -> torch.Tensor:
    c = product(made)
    c[5, 7] = float("nan")
    return c


def last_tile_skipped(made: Operands) -> torch.Tensor:
    return (made.a[:, :-32].float() @ made.b[:-32].float()).to(made.a.dtype)


def registers_swapped(made: Operands) -> torch.Tensor:
    """A fragment's registers 1 and 2 exchanged: rows 8-15, k 0-7 for rows 0-7, k 8-15 in every 16 x 16."""
    m, k = made.a.shape
    tiles = made.a.reshape(m // 16, 2, 8, k // 16, 2, 8)
    return (tiles.transpose(1, 4).reshape(m, k).float() @ made.b.float()).to(made.a.dtype)


def swizzle_forgotten(made: Operands) -> torch.Tensor:
    """Chunks of 8 in k exchanged as swizzle_a would, where the reader does not undo it."""
    m, k = made.a.shape
    rows = torch.arange(m)[:, None]
    columns = torch.arange(k)[None, :]
    moved = columns ^ (((rows >> 1) & 3) << 3)
    return (torch.gather(made.a, 1, moved).float() @ made.b.float()).to(made.a.dtype)


def one_element_off(made: Operands) -> torch.Tensor:
    c = product(made)
    c[100, 3] += 0.1 * abs(float(c.float().std()))
    return c


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(128, 128, 64), (256, 384, 160), (128, 256, 4096)])
@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (not_written, "1 of .* elements are NaN"),
        (last_tile_skipped, "off by more than rounding explains"),
        (registers_swapped, "off by more than rounding explains"),
        (swizzle_forgotten, "off by more than rounding explains"),
        (one_element_off, "1 of .* elements are off by more than rounding explains, the first at \\[100, 3\\]"),
    ],
)
def test_a_mistake_is_found(
    mistake: Callable[[Operands], torch.Tensor], says: str, shape: tuple[int, int, int], dtype: str
) -> None:
    import re

    made = operands(shape, dtype)
    problems = Judge(made, dtype).problems(mistake(made))
    assert problems
    assert re.search(says, problems[0]), problems


def test_an_error_twice_that_of_cublas_is_too_much_even_where_every_element_is_within_rounding() -> None:
    made = operands((256, 256, 1024), "bf16")
    judge = Judge(made, "bf16")
    exact = made.a.double() @ made.b.double()
    toward_zero = exact.float().view(torch.int32).bitwise_and(-65536).view(torch.float32)  # truncated to bf16
    problems = judge.problems((toward_zero * (1 - 2.0**-9)).to(torch.bfloat16))
    assert any("exceeds cuBLAS's" in problem for problem in problems), problems
