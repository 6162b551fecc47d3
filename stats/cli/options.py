"""Options that several commands share, each declared once: in a signature, ``fmt: options.Format = "table"``.

What is none of the values that an option allows is refused while the command line is read, in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stats.base import tables
from stats.base.errors import UserError, choice
from stats.base.files import need_folder, need_place


def one_of(option: str, allowed: Sequence[str], text: str) -> Any:
    """The declaration of ``option`` with the help ``text``, which takes one of ``allowed`` and raises UserError."""
    return typer.Option(
        option, metavar="|".join(allowed), parser=lambda value: choice(option, value, allowed), help=text
    )


def out_file(option: str, metavar: str, text: str) -> Any:
    """The declaration of ``option``, which names a file to write; one that has no folder is refused before any work."""

    def place(param: typer.CallbackParam, value: Path | None) -> Path | None:
        if value is not None:
            need_place(param.opts[0], value)
        return value

    return typer.Option(option, metavar=metavar, callback=place, help=text)


def out_folder(option: str, metavar: str, text: str) -> Any:
    """The declaration of ``option``, which names a folder to fill: it is made where that can be done, else refused."""

    def place(param: typer.CallbackParam, value: Path | None) -> Path | None:
        if value is not None:
            need_folder(param.opts[0], value)
        return value

    return typer.Option(option, metavar=metavar, callback=place, help=text)


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        from stats.record.provenance import suite_version

        typer.echo(f"{ctx.find_root().info_name} {suite_version()}")
        raise typer.Exit


Clocks = Annotated[Any, one_of("--clocks", ("auto", "lock", "monitor"), "What may be done to the clocks.")]
Config = Annotated[str, typer.Option("--config", metavar="FILE|NAME", help="A YAML file, or a name in configs/.")]
Device = Annotated[int, typer.Option("--device", min=0, help="CUDA device, as CUDA numbers them.")]
Format = Annotated[tables.Format, one_of("--format", tables.FORMATS, "Form of the result on stdout.")]
Launches = Annotated[int | None, typer.Option("--launches", help="Launches measured as one cell.")]
Out = Annotated[Path | None, out_file("--out", "FILE.jsonl", "Write the raw cells here.")]
Processes = Annotated[int | None, typer.Option("--processes", help="Fresh processes: the n of every interval.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the record in --out.")]
Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]


def typed(ctx: typer.Context) -> dict[str, str]:
    """The options that stand on the command line, by the name of their parameter."""
    found = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if source is not None and source.name == "COMMANDLINE":
            found[param.name or ""] = param.opts[0]
    return found


def refuse_beside(ctx: typer.Context, option: str, why: str, *served: str) -> None:
    """Raises UserError for an option that was typed beside ``option`` and is none of the parameters ``served``.

    An option that changes nothing would be taken for one that did.
    """
    for name, given in typed(ctx).items():
        if given != option and name not in served:
            raise UserError(f"{given}: {option} {why}, so {given} would change nothing; leave one of them out")


def refuse_before_subcommand(ctx: typer.Context) -> None:
    """Raises UserError for options that stand before a subcommand, which has its own."""
    given = next(iter(typed(ctx).values()), None)
    if given is not None:
        raise UserError(
            f"{given}: stands before {ctx.invoked_subcommand}, which would not see it; put options after the subcommand"
        )
