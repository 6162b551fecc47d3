"""The matrices of one GEMM: fresh random values, B in both layouts, outputs poisoned before every check.

Made in one place, apart from every assertion. Values are normal and never zero-filled, since power and so clocks depend
on the data. B is transposed here, once and outside every timing: that is the caveat on A2 and A2L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemm.kernel.arguments import check_memory, check_shape
from gemm.kernel.library import torch_dtype
from micro.model.variants import BLayout

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Operands:
    """``a`` [m, k], ``b`` [k, n], ``b_t`` [n, k], ``c`` [m, n], all of one dtype on one device."""

    a: torch.Tensor
    b: torch.Tensor
    b_t: torch.Tensor
    c: torch.Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    @property
    def shape_text(self) -> str:
        """``MxNxK``."""
        return "x".join(map(str, self.shape))

    def b_for(self, b_layout: BLayout) -> torch.Tensor:
        """B as a kernel of this layout reads it."""
        return self.b if b_layout is BLayout.NATURAL else self.b_t

    def poison(self) -> None:
        """Fill C with NaN, so that an element that is not written shows."""
        self.c.fill_(float("nan"))


def make_operands(m: int, n: int, k: int, dtype: str, seed: int) -> Operands:
    """Fresh normal matrices on the current device. Raises UserError for a bad shape or too little memory."""
    import torch

    check_shape(m, n, k)
    check_memory(m, n, k, torch.cuda.mem_get_info()[0])
    generator = torch.Generator("cuda").manual_seed(seed)
    kind = torch_dtype(dtype)
    a = torch.randn((m, k), generator=generator, device="cuda", dtype=torch.float32).to(kind)
    b = torch.randn((k, n), generator=generator, device="cuda", dtype=torch.float32).to(kind)
    operands = Operands(a=a, b=b, b_t=b.t().contiguous(), c=torch.empty((m, n), device="cuda", dtype=kind))
    operands.poison()
    return operands
