"""``python -m micro`` is ``micro-bench``; from a checkout it needs no install, but the packages of pyproject.toml."""

from stats.base.errors import run_module

run_module("micro.cli.app", "micro-bench")
