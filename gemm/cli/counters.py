"""``gemm-bench counters``: what the hardware counted, beside what was predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from micro.cli.counters import add_counters

if TYPE_CHECKING:
    from micro.counters.config import CountersConfig
    from micro.counters.count import CounterTool
    from micro.counters.launch_counts import LaunchCounts


def predict(arguments: Mapping[str, Any]) -> LaunchCounts:
    """The counts of one launch from what the target wrote about it."""
    from gemm.counters.launch_counts import gemm_launch

    return gemm_launch(*(arguments[key] for key in ("variant", "swizzle", "m", "n", "k")))


def gemm_tool(config: CountersConfig, variants: str | None, swizzle: str, device: int) -> CounterTool:
    """The GEMM of every variant at the config's shape."""
    from gemm.kernel.arguments import check_shape
    from micro.counters.count import CounterTool
    from micro.model.variants import VARIANTS, parse_variants

    names = parse_variants(variants) if variants is not None else list(VARIANTS)
    shape = config.gemm.m, config.gemm.n, config.gemm.k
    check_shape(*shape)
    arguments = ["--variant", ",".join(names), "--swizzle", swizzle, "--shape", "x".join(map(str, shape))]
    return CounterTool(
        name="gemm-bench",
        module="gemm.counters.target",
        kernel="gemm_kernel",
        predict=predict,
        arguments=[*arguments, "--device", str(device)],
    )


def register(app: typer.Typer) -> None:
    """Add the command to ``gemm-bench``."""
    add_counters(app, "gemm-bench", gemm_tool)
