"""What a kernel must never be handed: each refusal names the argument or the dimension, and the rule."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gemm.kernel.arguments import check_memory, check_shape, check_tensors, parse_shape
from micro.model.variants import BLayout
from stats.base.errors import UserError


@dataclass(frozen=True)
class Device:
    type: str
    index: int = 0

    def __str__(self) -> str:
        return self.type if self.type == "cpu" else f"{self.type}:{self.index}"


@dataclass(frozen=True)
class Tensor:
    """A stand-in with just what the checks look at."""

    shape: tuple[int, ...]
    dtype: str = "bf16"
    device: Device = Device("cuda")
    contiguous: bool = True
    address: int = 4096

    def is_contiguous(self) -> bool:
        return self.contiguous

    def data_ptr(self) -> int:
        return self.address


A, B, C = Tensor((256, 64)), Tensor((64, 384)), Tensor((256, 384))
B_T = Tensor((384, 64))


def test_good_tensors_give_m_n_k_in_both_layouts() -> None:
    assert check_tensors(A, B, C, BLayout.NATURAL, "bf16") == (256, 384, 64)
    assert check_tensors(A, B_T, C, BLayout.TRANSPOSED, "bf16") == (256, 384, 64)


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        (Tensor((256, 64), device=Device("cpu")), B, C, "a: is on cpu, must be on a CUDA device"),
        (A, Tensor((64, 384), device=Device("cpu")), C, "b: is on cpu"),
        (A, B, Tensor((256, 384), device=Device("cuda", 1)), "c: is on cuda:1, the other tensors are on cuda:0"),
        (A, Tensor((64, 384), dtype="fp16"), C, "b: has dtype fp16, the kernel computes in bf16"),
        (A, B_T, C, r"b: has shape \(384, 64\), must be \(64, 384\)"),
        (A, B, Tensor((256, 384), contiguous=False), "c: is not contiguous"),
        (Tensor((256, 64), address=4104), B, C, "a: address 0x1008 is not a multiple of 16 bytes"),
        (Tensor((256, 64, 1)), B, C, "a: has 3 dimensions, must be a matrix"),
        (Tensor((200, 64)), B, Tensor((200, 384)), "m = 200 is not a multiple of 128; nearest: 128 and 256"),
        (Tensor((0, 64)), B, Tensor((0, 384)), "m = 0 is not positive"),
    ],
)
def test_a_bad_tensor_is_named(a: Tensor, b: Tensor, c: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_tensors(a, b, c, BLayout.NATURAL, "bf16")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((100, 128, 32), r"m = 100 is not a multiple of 128; nearest: 128$"),
        ((128, 192, 32), "n = 192 is not a multiple of 128; nearest: 128 and 256"),
        ((128, 128, 33), "k = 33 is not a multiple of 32"),
        ((128, 128, 0), "k = 0 is not positive; it must be a multiple of 32"),
        ((128, -128, 32), "n = -128 is not positive"),
        ((2**31, 128, 32), "m = 2147483648 is above 2147483647"),
        ((2**30, 2**30, 32), "m and n make 70368744177664 blocks, above 2147483647"),
    ],
)
def test_a_bad_shape_names_dimension_and_rule(shape: tuple[int, int, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_shape(*shape)


def test_too_little_memory_names_the_largest_dimension() -> None:
    check_memory(4096, 4096, 4096, free_bytes=2**31)
    with pytest.raises(UserError, match=r"needs .* GiB on the device, 2\.0 GiB are free; choose a smaller k"):
        check_memory(4096, 4096, 1 << 20, free_bytes=2**31)


def test_a_shape_is_read_from_text() -> None:
    assert parse_shape("4096x128X32") == (4096, 128, 32)
    for text in ("4096", "4096x4096", "1e3x128x32", "128x128x32x1", "", "128x128x" + "9" * 5000):
        with pytest.raises(UserError, match="shape"):
            parse_shape(text)
