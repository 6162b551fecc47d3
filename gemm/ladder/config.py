"""What a configuration of the GEMM may say: which kernels, which shapes; the trial part is common to all experiments.

Kernels are the product of the lists, as far as the C table holds them. The trap: a family of comparisons is declared
before the run, so where none is written the ladder's own pairs are declared, for each setting of the rest.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from gemm.kernel.arguments import parse_shape
from gemm.kernel.variants import Epilogue, Kernel, LoadMode, Schedule, Wait, every_kernel, ladder_comparisons
from micro.bench.read_path.config import VariantNames
from micro.model.variants import VARIANTS
from stats.base.config import option_error
from stats.base.errors import UserError
from stats.base.plain_words import fault
from stats.run.config import TrialConfig

_CELL_FLOP = 1.4e12  # about 4 ms at 300 TFLOPS: far above the resolution of events and probe
_MOST_LAUNCHES = 200  # the queue in front of a held device takes about a thousand, and cuBLAS may need two a product


class GemmConfig(TrialConfig):
    """``configs/ladder-a.yaml`` and its kin."""

    variants: VariantNames = Field(default_factory=lambda: list(VARIANTS), min_length=1)
    shapes: list[str] = Field(default=["4096x4096x4096"], min_length=1)
    dtypes: list[Literal["bf16", "fp16"]] = Field(default=["bf16"], min_length=1)
    stages: list[Literal[1, 2, 3, 4]] = Field(default=[3], min_length=1)
    swizzle: Literal["on", "off", "both"] = "on"
    load_modes: list[Literal["cp_async", "ld_global"]] = Field(default=["cp_async"], min_length=1)
    epilogues: list[Literal["simple", "staged"]] = Field(default=["simple"], min_length=1)
    schedules: list[Literal["plain", "pipelined"]] = Field(default=["plain"], min_length=1)
    waits: list[Literal["counted", "all"]] = Field(default=["counted"], min_length=1)
    blocks_per_sm: list[Literal[1, 2]] = Field(default=[2], min_length=1)
    also: list[str] = Field(default_factory=list)  # further kernels by name, beside the product
    reference: str | None = None  # the arm that has a twin; default: A3, or the last variant
    cublas: bool = True
    equal_residency: Literal["require", "warn"] = "require"
    launches: int | None = Field(None, ge=1, le=10_000)  # per cell; None: as many as make a cell a few milliseconds

    @field_validator("shapes")
    @classmethod
    def _shapes(cls, texts: list[str]) -> list[str]:
        for text in texts:
            try:
                parse_shape(text)
            except UserError as error:
                raise ValueError(str(error)) from None
        return texts

    @field_validator(
        "variants", "shapes", "dtypes", "stages", "load_modes", "epilogues", "schedules", "waits", "blocks_per_sm"
    )
    @classmethod
    def _no_repeats(cls, values: list[object]) -> list[object]:
        if len(set(values)) != len(values):
            raise ValueError("a value is given twice")
        return values

    @model_validator(mode="after")
    def _arms_exist(self) -> GemmConfig:
        try:
            names = {kernel.name for kernel in self.kernels}
        except UserError as error:
            raise ValueError(str(error)) from None
        names |= {"cublas", "cublas/fp16"} if self.cublas else set()
        for name in {self.reference_arm, *(arm for pair in self.comparisons for arm in pair)}:
            if name not in names:
                raise ValueError(f"no arm {name!r}; this config has {', '.join(sorted(names))}")
        return self

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels to run, in the order of the table. Raises UserError for a combination that is not built."""
        swizzles = {"on": [True], "off": [False], "both": [True, False]}[self.swizzle]
        found = []
        for dtype, blocks, schedule, wait, epilogue, load_mode, swizzle, stages, variant in product(
            self.dtypes,
            self.blocks_per_sm,
            self.schedules,
            self.waits,
            self.epilogues,
            self.load_modes,
            swizzles,
            self.stages,
            self.variants,
        ):
            kernel = Kernel(
                variant=variant,
                dtype=dtype,
                load_mode=LoadMode[load_mode.upper()],
                stages=stages,
                swizzle=swizzle,
                epilogue=Epilogue[epilogue.upper()],
                schedule=Schedule[schedule.upper()],
                wait=Wait[wait.upper()],
                blocks_per_sm=blocks,
            )
            kernel.group  # noqa: B018 - raises for what is not built
            found.append(kernel)
        built = {kernel.name: kernel for kernel in every_kernel()}
        for name in self.also:
            if name not in built:
                raise UserError(f"also: no kernel {name!r}; names look like {', '.join(list(built)[1:4])}")
            if built[name] not in found:
                found.append(built[name])
        return found

    @property
    def reference_arm(self) -> str:
        """The arm whose twin runs beside it."""
        if self.reference is not None:
            return self.reference
        a3 = [kernel.name for kernel in self.kernels if kernel.variant == "A3"]
        return "A3" if "A3" in a3 else (a3 or [self.kernels[-1].name])[0]

    @property
    def family(self) -> list[tuple[str, str]]:
        """The declared comparisons: those written, or the ladder's."""
        return self.comparisons or ladder_comparisons(self.kernels)

    def launches_for(self, shape: tuple[int, int, int]) -> int:
        """Launches per cell on ``shape``: as stated, or for about ``_CELL_FLOP`` operations."""
        m, n, k = shape
        return self.launches or max(1, min(_MOST_LAUNCHES, round(_CELL_FLOP / (2 * m * n * k))))


_ARM_FIELDS = frozenset(
    {"variants", "dtypes", "stages", "swizzle", "load_modes", "epilogues", "schedules", "waits", "blocks_per_sm"}
)


_OPTIONS = {"l2_mode": "--l2", "shapes": "--shape", "dtypes": "--dtype", "load_modes": "--load-mode"}


def with_changes(config: GemmConfig, changes: dict[str, Any]) -> GemmConfig:
    """The config with what the command line said; new arms get the ladder's family instead of the written one.

    Raises UserError naming the option, or the field, for a value that does not fit.
    """
    fields = {**config.model_dump(), **changes}
    if _ARM_FIELDS & set(changes):
        fields |= {"comparisons": [], "reference": None, "also": []}
    try:
        return GemmConfig.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        if field in changes:
            option = _OPTIONS.get(field, "--" + field.replace("_", "-"))
            raise UserError(option_error(option, GemmConfig, error)) from None
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{where}: {fault(first)}" if where else fault(first)) from None
