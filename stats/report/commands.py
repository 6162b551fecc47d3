"""Which commands and options does a tool have? Read from its application itself, so that the page cannot fall behind.

micro and gemm are found by name, as ``stats.report.tools`` finds their tables: imports run stats <- micro <- gemm.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from stats.base.errors import UserError
from stats.base.tables import Column, render
from stats.record.freshness import Freshness
from stats.report.blocks import Made

APPS = {"micro-bench": "micro.cli.app", "gemm-bench": "gemm.cli.app", "bench-stats": "stats.cli.app"}
_COLUMNS = [Column("option", "option", align="left"), Column("help", "meaning", align="left")]


def command_of(tool: str) -> Any:
    """The click command behind ``tool``. Raises UserError for a tool that is none of the suite's."""
    import typer

    if tool not in APPS:
        raise UserError(f"commands {tool!r}: choose from {', '.join(APPS)}")
    return typer.main.get_command(importlib.import_module(APPS[tool]).app)


def walk(command: Any, path: str) -> list[tuple[str, Any]]:
    """The command and all below it, each with the words that call it."""
    below = getattr(command, "commands", {})
    return [(path, command), *(found for name, one in below.items() for found in walk(one, f"{path} {name}"))]


def commands_block(tool: Any) -> Made:
    """Every command of ``tool`` as a heading, its sentence and a table of its options."""
    parts = []
    for path, command in walk(command_of(tool), str(tool)):
        rows = [_row(param) for param in command.params if "--help" not in param.opts and not _hidden(param)]
        table = f"\n\n{render(_COLUMNS, rows, 'md').rstrip()}" if rows else ""
        heading = f"### {path}\n\n" if " " in path else ""  # the tool's own is the page's
        parts.append(f"{heading}{_one_line(command.help)}{table}")
    return Made("\n\n".join(parts), Freshness("none"))


def _hidden(param: Any) -> bool:
    return bool(getattr(param, "hidden", False))


def _row(param: Any) -> dict[str, str]:
    """Of the parameter only what every version of typer has: its type is another thing in each."""
    takes = param.metavar or ""
    if param.param_type_name == "argument":
        name = takes or param.name.upper()
    else:
        name = " ".join([", ".join(param.opts), *([takes] if takes and not getattr(param, "is_flag", False) else [])])
    default = getattr(param.default, "value", param.default)
    shown = isinstance(default, (int, float, str)) and default is not False and default != ""
    said = f" (default: {default})" if shown and "default:" not in (param.help or "") else ""
    return {"option": f"`{name}`", "help": f"{_one_line(getattr(param, 'help', '') or '')}{said}"}


def _one_line(text: str | None) -> str:
    """Prose without its line breaks; what could be read as HTML or as a link is escaped."""
    return re.sub(r"([<*_\[\]])", r"\\\1", " ".join((text or "").split()))
