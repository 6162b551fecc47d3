"""Nsight Compute from outside: find it, ask what it can count, let it count one process, read its report back.

ncu writes a report (.ncu-rep) and prints it as CSV in a second step, so that its own messages, the target's output and
the figures never share a stream. The traps: ncu exits 0 when it profiled nothing, and when a query was refused; it
refuses a whole run for one unknown metric; numbers come with thousands separators of the locale.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stats.base.errors import BenchError, UserError

_ELSEWHERE = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda-*/bin/ncu")
_QUERY_TIMEOUT_S = 120
_PROFILE_TIMEOUT_S = 900
_BASE_NAME = re.compile(r"^\s*([a-z][a-z0-9_]*__[a-z0-9_]+)\b(?!\.)", re.MULTILINE)
_FULL_NAME = re.compile(r"\b[a-z][a-z0-9_]*__[a-z0-9_]+\.[a-z][a-z0-9_.]*[a-z0-9]\b")
_UNKNOWN = (
    re.compile(r"Failed to find metric[s]?:?\s+(?:regex:\^?)?['\"]?([A-Za-z0-9_.]+)"),
    re.compile(r"Failed to access the following \d+ metrics?:\s*([A-Za-z0-9_., ]+)"),
)
_NO_PERMISSION = "ERR_NVGPUCTRPERM"
_NOTHING = "No kernels were profiled"


@dataclass(frozen=True)
class Available:
    """What this chip counts: base names, full names with suffix (empty where ncu would not list them), ncu's words."""

    bases: frozenset[str]
    full: frozenset[str]
    text: str

    def has(self, name: str) -> bool:
        """Whether a metric's full name exists on this chip."""
        base = name.split(".")[0]
        if base not in self.bases:
            return False
        known = {full.split(".")[0] for full in self.full}
        return name in self.full if base in known and "." in name else True


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch of a report: the kernel's full name, its grid, and every value by metric name (nan: not available)."""

    kernel: str
    grid: str
    block: str
    values: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    text: dict[str, str] = field(default_factory=dict)


class UnknownMetricError(Exception):
    """ncu cannot count metrics of these names (without or with their suffix)."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


def find_ncu(explicit: str | None = None) -> Path:
    """The ncu that was named, else the one on PATH, else where toolkits put it. Raises UserError."""
    if explicit is not None:
        found = shutil.which(explicit)
        if found is None:
            raise UserError(f"--ncu {explicit}: no such program")
        return Path(found)
    found = shutil.which("ncu")
    if found is not None:
        return Path(found)
    for pattern in _ELSEWHERE:
        for path in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            if os.access(path, os.X_OK):
                return path
    raise UserError("ncu: not found; install Nsight Compute or name it with --ncu; everything else works without it")


def _refusal(text: str) -> UserError | None:
    """ncu's reason not to count, as one line with the remedy; None when it gave none."""
    if _NO_PERMISSION in text:
        return UserError(
            "ncu: no permission to read the GPU's counters (ERR_NVGPUCTRPERM); run as root, or load the driver with "
            "NVreg_RestrictProfilingToAdminUsers=0; everything else works without counters"
        )
    if "LibraryNotLoaded" in text:
        return UserError("ncu: cannot reach the counters (LibraryNotLoaded): driver and ncu do not fit, or a sandbox")
    return None


def _first_error(text: str) -> str:
    lines = [line.removeprefix("==ERROR==").strip() for line in text.splitlines() if line.startswith("==ERROR==")]
    return next((line for line in lines if line), "it gave no reason")


def parse_names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Base names and full names (with suffix) in what ``ncu --query-metrics`` prints."""
    full = frozenset(_FULL_NAME.findall(text))
    return frozenset(_BASE_NAME.findall(text)) | {name.split(".")[0] for name in full}, full


def _number(text: str) -> float:
    plain = text.strip().replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return math.nan


def parse_raw(text: str) -> list[ProfiledLaunch]:
    """The launches of ``ncu --csv --page raw``: a header row, a row of units, a row a launch; other lines are skipped.

    Raises BenchError when there is no header, or a row that does not fit it.
    """
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise BenchError(f"ncu: its raw page has no table ({_first_error(text)})")
    csv.field_size_limit(1 << 28)  # --set full: samples over time are one cell
    body = "".join(line for line in lines[start:] if not line.startswith("=="))
    try:
        header, *rows = [row for row in csv.reader(io.StringIO(body)) if row]
    except csv.Error as error:
        raise BenchError(f"ncu: its raw page is no CSV ({error})") from None
    units = dict(zip(header, rows.pop(0), strict=False)) if rows and rows[0][0] == "" else {}
    launches = []
    for row in rows:
        if len(row) != len(header):
            raise BenchError(f"ncu: a row of its raw page has {len(row)} fields, the header {len(header)}")
        cells = dict(zip(header, row, strict=True))
        metrics = {name: cell for name, cell in cells.items() if name[:1].islower()}
        launches.append(
            ProfiledLaunch(
                kernel=cells.get("Kernel Name", ""),
                grid=cells.get("Grid Size", ""),
                block=cells.get("Block Size", ""),
                values={name: _number(cell.split(" (")[0]) for name, cell in metrics.items()},
                units={name: units.get(name, "") for name in metrics},
                text=metrics,
            )
        )
    return launches


def parse_instances(cell: str) -> dict[str, int]:
    """``1,234 (LDS: 1,000; HMMA: 234)`` as counts by label; empty for a cell without instances."""
    match = re.fullmatch(r"[^()]*\((.*)\)\s*", cell, re.DOTALL)
    if match is None:
        return {}
    found = {}
    for part in match[1].split(";"):
        label, separator, value = part.rpartition(":")
        number = _number(value)
        if separator and number == number:
            found[label.strip()] = int(number)
    return found


class Ncu:
    """One ncu program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _run(self, arguments: Sequence[str], timeout_s: float) -> tuple[int, str]:
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                [str(self.path), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"ncu: no answer within {timeout_s:.0f} s; ended") from None
        except OSError as error:
            raise UserError(f"{self.path}: cannot be run ({error.strerror})") from None
        return done.returncode, done.stdout

    def version(self) -> str:
        """``2025.3.1.0``, or ``unknown``."""
        match = re.search(r"Version\s+([0-9][0-9.]*)", self._run(["--version"], _QUERY_TIMEOUT_S)[1])
        return match[1].rstrip(".") if match else "unknown"

    def available(self, device_index: int, wanted: Sequence[str]) -> Available:
        """Which metrics this device has, and which suffixes those of ``wanted`` take. Raises UserError if refused."""
        where = ["--devices", str(device_index)]
        status, text = self._run(["--config-file", "off", "--query-metrics", *where], _QUERY_TIMEOUT_S)
        bases, _ = parse_names(text)
        if not bases:
            raise _refusal(text) or BenchError(f"ncu --query-metrics (exit status {status}): {_first_error(text)}")
        present = sorted({name.split(".")[0] for name in wanted} & bases)
        options = ["--config-file", "off", "--query-metrics", "--query-metrics-mode", "suffix", *where]
        _, suffixes = self._run([*options, "--metrics", ",".join(present)], _QUERY_TIMEOUT_S)
        return Available(bases, parse_names(suffixes)[1], f"{text}\n{suffixes}")

    def command(
        self,
        target: Sequence[str],
        *,
        kernel: str,
        metrics: Sequence[str],
        report: Path | str,
        clock_control: str,
        cache_control: str,
        full: bool = False,
    ) -> list[str]:
        """The arguments that count ``target``'s launches of ``kernel`` into ``report`` (with its .ncu-rep)."""
        return [
            *("--config-file", "off", "--target-processes", "all"),
            *("--kernel-name-base", "function", "--kernel-name", kernel),
            *("--clock-control", clock_control, "--cache-control", cache_control),
            *(("--set", "full") if full else ()),
            *("--metrics", ",".join(metrics)),
            *("--force-overwrite", "--export", str(report)),
            *target,
        ]

    def profile(self, arguments: Sequence[str], report: Path, kernel: str, log: Path) -> None:
        """Run, and keep ncu's words in ``log``.

        Raises UnknownMetricError; UserError when counters are refused or no kernel matched; BenchError for the rest.
        """
        status, text = self._run(arguments, _PROFILE_TIMEOUT_S)
        log.write_text(text, encoding="utf-8")
        refusal = _refusal(text)
        if refusal is not None:
            raise refusal
        unknown = [name for pattern in _UNKNOWN for found in pattern.findall(text) for name in found.split(",")]
        if unknown:
            raise UnknownMetricError(frozenset(name.strip().rstrip(".") for name in unknown))
        target_error = next((line for line in text.splitlines() if line.startswith("counter target: ")), None)
        if target_error is not None:
            raise BenchError(target_error)
        if _NOTHING in text or (status == 0 and not report.exists()):
            raise UserError(f"ncu: kernel filter {kernel!r} matched nothing that the target launched")
        if status != 0:
            raise BenchError(f"ncu (exit status {status}): {_first_error(text)}")

    def raw_page(self, report: Path, *, instances: bool = False) -> str:
        """The report as CSV, a column a metric; with ``instances`` also what a metric is made of (opcodes)."""
        options = ["--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled"]
        if instances:
            options += ["--print-metric-instances", "details"]
        status, text = self._run(["--config-file", "off", "--import", str(report), *options], _QUERY_TIMEOUT_S)
        if status != 0:
            raise BenchError(f"ncu --import (exit status {status}): {_first_error(text)}")
        return text
