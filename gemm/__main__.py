"""``python -m gemm`` is ``gemm-bench``; from a checkout it needs no install, but the packages of pyproject.toml."""

from stats.base.errors import run_module

run_module("gemm.cli.app", "gemm-bench")
