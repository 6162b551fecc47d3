"""How a command ends: one line on stderr and a documented status for everything expected; a traceback for a defect."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from stats.base.errors import EXIT_BAD_INPUT, EXIT_FAILED, BenchError, UserError, run_app


def app_that(does: Callable[[], Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

    @app.command()
    def command(number: int = typer.Option(1, "--number")) -> Any:
        return does()

    return app


def raising(error: BaseException) -> Callable[[], Any]:
    def does() -> Any:
        raise error

    return does


def ended(app: typer.Typer, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["tool", *arguments])
    with pytest.raises(SystemExit) as stop:
        run_app(app, "tool")
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (UserError("shape: m = 0\n is not positive; choose m >= 1"), EXIT_BAD_INPUT, "shape: m = 0 is not positive;"),
        (BenchError("A1: wrong fragment"), EXIT_FAILED, "A1: wrong fragment"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Abort(), 130, "interrupted"),
        (typer.BadParameter("no such\nformat"), EXIT_BAD_INPUT, "Invalid value: no such format (see tool --help)"),
    ],
)
def test_every_expected_end_is_one_line_and_its_status(
    error: BaseException, status: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(app_that(raising(error)), monkeypatch=monkeypatch) == status
    out, err = capsys.readouterr()
    assert err.startswith(f"tool: {told}")
    assert (err.count("\n"), out) == (1, "")


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (3, 3), ("text", 0)])
def test_a_command_may_return_its_status(returned: Any, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(app_that(lambda: returned), monkeypatch=monkeypatch) == status


def test_an_exit_keeps_its_status_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(app_that(raising(typer.Exit(1))), monkeypatch=monkeypatch) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("arguments", [["--number", "x"], ["--bogus"], ["more"]])
def test_a_usage_error_points_at_help(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(app_that(lambda: None), *arguments, monkeypatch=monkeypatch) == EXIT_BAD_INPUT
    err = capsys.readouterr().err
    assert err.endswith("(see tool --help)\n")
    assert err.count("\n") == 1


def test_no_arguments_print_the_help_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
    app.callback()(lambda: None)
    app.command("one")(lambda: None)
    app.command("two")(lambda: None)
    assert ended(app, monkeypatch=monkeypatch) in (0, EXIT_BAD_INPUT)  # older versions of click call it a success
    bare = "".join(capsys.readouterr())
    assert ended(app, "--help", monkeypatch=monkeypatch) == 0
    assert bare == capsys.readouterr().out
    assert bare.count("\n") > 5


def test_other_expected_trouble_of_typer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    click_exception: Any = typer.BadParameter.__bases__[0].__bases__[0]
    assert ended(app_that(raising(click_exception("odd\ntrouble"))), monkeypatch=monkeypatch) == EXIT_BAD_INPUT
    assert capsys.readouterr().err == "tool: odd trouble\n"


def test_a_reader_that_leaves_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert ended(app_that(raising(BrokenPipeError())), monkeypatch=monkeypatch) == 0


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tool"])
    with pytest.raises(ZeroDivisionError):
        run_app(app_that(lambda: 1 // 0), "tool")


@pytest.mark.parametrize("module", ["micro", "gemm", "stats"])
def test_a_pipe_that_closes_early_leaves_no_traceback(module: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m {module} --help | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("Usage: ")


@pytest.mark.parametrize(
    ("package", "tool"), [("micro", "micro-bench"), ("gemm", "gemm-bench"), ("stats", "bench-stats")]
)
def test_a_checkout_without_its_packages_says_which_is_missing(package: str, tool: str) -> None:
    root = Path(__file__).resolve().parents[3]
    # -S: an interpreter without site-packages.
    answer = subprocess.run(
        [sys.executable, "-S", "-m", package, "--help"], capture_output=True, text=True, check=False, cwd=root, env={}
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"{tool}: typer is not installed; make bench, or pip install -e .\n"


SHELL = (
    "{python} -c 'import sys, typer\nfrom stats.base.errors import run_app\n"
    "app = typer.Typer()\n{command}' {redirection}"
)
APP = 'app.command()(lambda: sys.stdout.write("± a line\\n" * {lines}) and None)\nrun_app(app, "tool")'


def _shell(redirection: str, lines: int = 100_000, **environment: str) -> subprocess.CompletedProcess[str]:
    # Unbuffered, Python drops what a pipe does not take at once and sees no reader leave: no test of anything.
    environment = {"PYTHONUNBUFFERED": "", **environment}
    return subprocess.run(
        SHELL.format(python=sys.executable, command=APP.format(lines=lines), redirection=redirection),
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parents[3],
        env={**os.environ, **environment},
    )


def test_a_reader_that_leaves_a_long_output_gets_status_0() -> None:
    done = _shell("| head -1; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "± a line\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("lines", [1, 100_000], ids=["within the buffer", "above it"])
def test_a_full_disk_behind_stdout_is_one_line(lines: int) -> None:
    done = _shell(">/dev/full", lines)
    assert done.returncode == EXIT_BAD_INPUT
    assert done.stderr == "tool: stdout: cannot be written (No space left on device); make room\n"


def test_a_closed_stdout_is_no_error() -> None:
    done = _shell(">&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_the_sign_gets_another() -> None:
    done = _shell("", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("? a line\n")


@pytest.mark.parametrize("command", ["compare {}", "show {}", "report README.md --html {}", "plot README.md --out {}"])
def test_a_name_that_no_file_can_have_is_one_line(command: str) -> None:
    line = [sys.executable, "-m", "stats", *command.format("x" * 300).split()]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "File name too long" in done.stderr
