"""Is every kernel right? Against a float64 reference, against cuBLAS, and to the bit against each other.

Outputs are poisoned with NaN first. An element may be off by the rounding of the output plus K roundings of the fp32
accumulator, each relative to at most ‖a_i‖·‖b_j‖, which bounds every partial sum (Cauchy–Schwarz; Higham, Accuracy and
Stability of Numerical Algorithms, 3.1, gives the K). As a whole the error may not exceed cuBLAS's own × 1.1.
The trap: kernels that share a mistake agree with each other to the bit, so equality alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gemm.kernel.operands import Operands, make_operands
from gemm.kernel.variants import Kernel
from stats.base.errors import BenchError

if TYPE_CHECKING:
    import torch

    from gemm.kernel.library import GemmLibrary


# One block and one k-tile; fewer k-tiles than stages; k-tiles no multiple of the stages, not square; a raster group
# that is not full (9 rows of blocks).
CHECK_SHAPES = ((128, 128, 32), (128, 128, 64), (256, 384, 160), (1152, 640, 512))
OUTPUT_ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11}
ACCUMULATOR_ROUNDOFF = 2.0**-24
CUBLAS_MARGIN = 1.1


@dataclass
class CheckReport:
    """What was checked and what failed; ``relative_errors`` (Frobenius) are keyed by dtype, shape, kernel."""

    checked: int = 0
    failures: list[str] = field(default_factory=list)
    relative_errors: dict[tuple[str, str, str], float] = field(default_factory=dict)
    cublas_errors: dict[tuple[str, str], float] = field(default_factory=dict)


class Judge:
    """Knows the right C of one set of operands, how far each element may be off, and how far cuBLAS is."""

    def __init__(self, operands: Operands, dtype: str) -> None:
        import torch

        a, b = operands.a.double(), operands.b.double()
        self._reference = a @ b
        partial_sums = torch.outer(a.norm(dim=1), b.norm(dim=0))
        self._tolerance = partial_sums.mul_(operands.shape[2] * ACCUMULATOR_ROUNDOFF)
        self._tolerance += OUTPUT_ROUNDOFF[dtype] * self._reference.abs()
        self._norm = float(self._reference.norm())
        self.cublas_error = self.relative_error(_cublas(operands))

    def relative_error(self, c: torch.Tensor) -> float:
        """‖C − reference‖ / ‖reference‖, Frobenius."""
        return float((c.double() - self._reference).norm()) / self._norm

    def problems(self, c: torch.Tensor) -> list[str]:
        """What is wrong with C, in words; empty when it is right."""
        missing = int(c.isnan().sum())
        if missing:
            return [f"{missing} of {c.numel()} elements are NaN: not written, or computed from what was not loaded"]
        off = (c.double() - self._reference).abs_()
        found = []
        beyond = off > self._tolerance
        count = int(beyond.sum())
        if count:
            row, col = (int(index) for index in beyond.nonzero()[0])
            found.append(
                f"{count} of {c.numel()} elements are off by more than rounding explains, the first at [{row}, {col}]: "
                f"{float(c[row, col]):g} instead of {float(self._reference[row, col]):g}"
            )
        error = self.relative_error(c)
        if error > CUBLAS_MARGIN * self.cublas_error:
            found.append(f"relative error {error:.3e} exceeds cuBLAS's {self.cublas_error:.3e} × {CUBLAS_MARGIN}")
        return found


def _cublas(operands: Operands) -> torch.Tensor:
    """torch.matmul with fp32 accumulation to the end: its reduced-precision split-K would be too easy a rival."""
    import torch

    backend: Any = torch.backends.cuda.matmul
    names = ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")
    before = {name: getattr(backend, name) for name in names}
    try:
        for name in names:
            setattr(backend, name, False)
        return torch.matmul(operands.a, operands.b)
    finally:
        for name, value in before.items():
            setattr(backend, name, value)


def check_kernels(library: GemmLibrary, kernels: Sequence[Kernel], operands: Operands, report: CheckReport) -> None:
    """Run every kernel (of one dtype) on ``operands`` and add to ``report`` what is wrong with its output."""
    import torch

    judge = Judge(operands, kernels[0].dtype)
    where = operands.shape_text
    report.cublas_errors[kernels[0].dtype, where] = judge.cublas_error
    first: torch.Tensor | None = None
    for kernel in kernels:
        operands.poison()
        library.launcher(kernel, operands.a, operands.b_for(kernel.b_layout), operands.c)()
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # a fault: nothing after it on this device can be trusted
            raise BenchError(f"{kernel.name} at {where}: {str(error).splitlines()[0]}") from None
        bits = operands.c.view(torch.int16)
        problems = judge.problems(operands.c)
        if first is None:
            first = bits.clone()
        elif not torch.equal(bits, first):
            count = int((bits != first).sum())
            problems.append(f"{count} of {bits.numel()} elements differ in their bits from {kernels[0].name}")
        report.checked += 1
        report.failures += [f"{kernel.name} at {where}: {problem}" for problem in problems]
        report.relative_errors[kernel.dtype, where, kernel.name] = judge.relative_error(operands.c)


def check_all(
    library: GemmLibrary, kernels: Iterable[Kernel], shapes: Iterable[tuple[int, int, int]], seed: int
) -> CheckReport:
    """Check kernels of any dtypes on every shape, with inputs of their own for each."""
    report = CheckReport()
    by_dtype: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        by_dtype.setdefault(kernel.dtype, []).append(kernel)
    for number, shape in enumerate(shapes):
        for dtype, group in by_dtype.items():
            check_kernels(library, group, make_operands(*shape, dtype, seed + number), report)
    return report


def gate(library: GemmLibrary, kernels: Sequence[Kernel], operands: Operands) -> None:
    """The correctness gate before any timing, for kernels of one dtype. Raises BenchError with the first failure."""
    report = CheckReport()
    check_kernels(library, kernels, operands, report)
    if report.failures:
        more = f" (and {len(report.failures) - 1} more)" if len(report.failures) > 1 else ""
        raise BenchError(f"correctness gate: {report.failures[0]}{more}")
