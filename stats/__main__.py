"""``python -m stats`` is ``bench-stats``; from a checkout it needs no install, but the packages of pyproject.toml."""

from stats.base.errors import run_module

run_module("stats.cli.app", "bench-stats")
