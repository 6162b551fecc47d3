"""What stands in a page's template: text, fields and comments, each with its line; and what does a field give?

A template is Markdown with ``{{ expression }}`` fields in jinja2's grammar, evaluated one by one in its sandbox, so
that every error and every difference names its field. The trap: a loop or a condition would hide which line of the
template made which line of the page, so there are none; ``{% raw %}`` stays, for pages that show a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from stats.base.errors import BenchError, UserError
from stats.report.values import Value

_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
_ENVIRONMENT.filters = {"fmt": Value.written_as}
_ENVIRONMENT.globals.clear()


@dataclass(frozen=True)
class Piece:
    """A part of a template and the line on which it begins; of a field, ``text`` is the expression."""

    kind: Literal["text", "field", "comment"]
    line: int
    text: str


def split_template(source: str, name: str) -> list[Piece]:
    """The pieces of a template in order. Raises UserError, naming the line, for a field without an end and for tags."""
    pieces: list[Piece] = []
    inside: list[str] | None = None
    try:
        for line, kind, text in _ENVIRONMENT.lex(source):
            if kind == "block_begin":
                raise UserError(f"{name}:{line}: a template has fields only; write {{{{ name }}}}, or {{% raw %}}")
            if kind in ("variable_begin", "comment_begin"):
                inside, begins = [], line
            elif kind in ("variable_end", "comment_end"):
                assert inside is not None
                what: Literal["field", "comment"] = "field" if kind == "variable_end" else "comment"
                pieces.append(Piece(what, begins, "".join(inside).strip()))
                inside = None
            elif inside is not None:
                inside.append(text)
            elif kind == "data":
                pieces.append(Piece("text", line, text))
    except TemplateSyntaxError as error:
        raise UserError(f"{name}:{error.lineno}: {_plain(error)}") from None
    if inside is not None:
        raise UserError(f"{name}:{begins}: the field has no end; close it with }}}}")
    return pieces


def evaluate(field: Piece, names: Mapping[str, Any]) -> Any:
    """What the expression of ``field`` gives. Raises UserError for one that is wrong or asks for what is not there."""
    try:
        found = _ENVIRONMENT.compile_expression(field.text, undefined_to_none=False)(**names)
        if isinstance(found, Undefined):
            str(found)
    except BenchError:
        raise
    except TemplateError as error:
        unknown = "is undefined" in str(error)
        hint = f"; the names are {', '.join(sorted(names))}" if unknown else "; write {{ name[row].column }}"
        raise UserError(_plain(error) + hint) from None
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise UserError(f"cannot be evaluated ({_plain(error)}); name a figure, {{{{ name[row].column }}}}") from None
    return found


def _plain(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
