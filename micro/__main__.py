"""``python -m micro`` is ``micro-bench``; from a checkout it needs no install, but the packages of pyproject.toml."""

from stats.errors import run_module

run_module("micro.cli", "micro-bench")
