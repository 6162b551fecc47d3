"""``micro-bench doctor``: what is wrong with this machine?

A line for each thing examined, with the remedy where something is amiss; exit status 1 if one fails. The trap: it is
called on machines where nothing works, so nothing heavy is imported before the command runs.
"""

from __future__ import annotations

import sys

import typer


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command()(doctor)


def doctor(as_json: bool = typer.Option(False, "--json", help="The findings as JSON.")) -> None:
    """Examine driver, GPUs, toolkit, tools and disk, changing nothing; exit status 0 if nothing fails, else 1."""
    from micro.doctor.examine import diagnose, exit_status, findings_json, findings_text

    findings = diagnose()
    sys.stdout.write(findings_json(findings) if as_json else findings_text(findings))
    raise typer.Exit(exit_status(findings))
