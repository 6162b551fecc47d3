"""``python -m gemm`` is ``gemm-bench``; from a checkout it needs no install, but the packages of pyproject.toml."""

from stats.errors import run_module

run_module("gemm.cli", "gemm-bench")
