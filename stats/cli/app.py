"""``bench-stats``: what do records say? Needs no GPU and no torch.

Each group of commands registers itself on this app. Imports that cost time (numpy, scipy) happen inside the commands,
so that ``--help`` stays quick.
"""

from __future__ import annotations

import typer

from stats.base.errors import run_app
from stats.cli import analysis as cli_analysis
from stats.cli import options
from stats.cli import report as cli_report

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def bench_stats(version: options.Version = False) -> None:
    """Analyse records of paired trials: compare arms or builds, and plan how long to measure."""


for part in (cli_analysis, cli_report):
    part.register(app)


def main() -> None:
    """Entry point of ``bench-stats``."""
    run_app(app, "bench-stats")
