"""Count one tool's launches with ncu and set the figures beside what each launch had to show.

Ask which metrics this chip has → choose a name for each → one ncu process that launches every variant once → report
back as CSV → one record. Launches are told apart by their order, and the integers of each kernel's template arguments
must agree. The trap: a metric that ncu does not know stops the whole run, so it is dropped, recorded, and the run made
again.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from micro.counters.addresses import grouped_addresses
from micro.counters.config import CountersConfig, Metric
from micro.counters.launch_counts import LaunchCounts
from micro.counters.record import CountersRecord, DraftRow, Facts, LaunchFacts, LaunchRow, MetricRow
from micro.gpu.ncu import Available, Ncu, ProfiledLaunch, UnknownMetricError, parse_instances, parse_raw
from stats.base.errors import BenchError, UserError
from stats.record.provenance import created_utc, git_state, software_versions

# ncu prints an argument as 1 or as (layout::ReadMode)1, by its version.
_TEMPLATE = re.compile(r"[<,]\s*(?:\((?:\(anonymous namespace\))?[\w:<>]+\)\s*)?(-?\d+)(?=\s*[,>])")
_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_MOST_REFUSALS = 12
_REPORT, _FACTS = "report.ncu-rep", "facts.json"


@dataclass(frozen=True)
class CounterTool:
    """What differs between the tools: the target, its kernel's function name, and the prediction of a launch."""

    name: str
    module: str
    kernel: str
    predict: Callable[[Mapping[str, Any]], LaunchCounts]
    arguments: Sequence[str] = field(default_factory=tuple)

    def target(self, facts: Path | None = None) -> list[str]:
        """The command that ncu runs."""
        where = ["--facts", str(facts)] if facts is not None else []
        return [sys.executable, "-m", self.module, *self.arguments, *where]


def choose_names(
    config: CountersConfig, available: Available, refused: frozenset[str] = frozenset()
) -> list[MetricRow]:
    """For each metric the first of its names that this chip has and ncu has not refused; without one, the reason."""
    rows = []
    for metric in config.metrics:
        there = [name for name in metric.names if not metric.listed or available.has(name)]
        name = next((name for name in there if not refused & {name, name.split(".")[0]}), None)
        reason = "" if name is not None else f"this chip has none of {', '.join(metric.names)}"
        if there and name is None:
            reason = f"ncu refused {', '.join(there)}"
        rows.append(_row(metric, name, reason))
    return rows


def _row(metric: Metric, name: str | None, reason: str) -> MetricRow:
    return MetricRow(
        key=metric.key, group=metric.group, unit=metric.unit, predicted=metric.predicted, name=name, reason=reason
    )


def draft_rows(config: CountersConfig, available: Available, metrics: Sequence[MetricRow]) -> list[DraftRow]:
    """Which of the names under test exist here, and which names measured what they were meant to."""
    used = {metric.key: metric.name for metric in metrics}
    rows = []
    for draft in config.drafts:
        base = draft.name.split(".")[0]
        matches = sorted(fnmatch.filter(available.bases, base))
        exists = bool(matches) if "*" in draft.name else available.has(draft.name)
        measured_by = [name for key in draft.stands_for if (name := used[key]) is not None]
        rows.append(DraftRow(name=draft.name, exists=exists, matches=matches, measured_by=measured_by))
    return rows


def by_hand(tool: CounterTool, config: CountersConfig, ncu: str = "ncu") -> list[str]:
    """The line for a person: the first name of every metric, the report beside."""
    names = [metric.names[0] for metric in config.metrics]
    arguments = Ncu(Path(ncu)).command(
        ["python", *tool.target()[1:]],
        kernel=tool.kernel,
        metrics=names,
        report=f"{tool.name}.ncu-rep",
        clock_control=config.clock_control,
        cache_control=config.cache_control,
    )
    return [ncu, *arguments]


def _run_bare(command: Sequence[str]) -> None:
    """The target once without ncu: builds, and fails with its own words."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 0:
        return
    lines = done.stdout.strip().splitlines()
    said = next((line for line in lines if line.startswith("counter target: ")), None)
    if said is None:
        raise BenchError(f"counter target: exit status {done.returncode}: {lines[-1] if lines else 'it said nothing'}")
    kind = UserError if done.returncode == UserError.exit_status else BenchError
    raise kind(said.removeprefix("counter target: "))


def template_integers(kernel: str) -> list[int]:
    """The integers among the template arguments of a demangled kernel name, enumerators and flags included."""
    return [int(text) for text in _TEMPLATE.findall(kernel.split(">(")[0] + ">")]


def match_launches(facts: Sequence[LaunchFacts], counted: Sequence[ProfiledLaunch]) -> list[ProfiledLaunch]:
    """The counted launch of each launch made, by order. Raises BenchError when number, grid or template differ."""
    if len(facts) != len(counted):
        raise BenchError(f"ncu counted {len(counted)} launches, the target made {len(facts)}")
    for made, launch in zip(facts, counted, strict=True):
        integers = template_integers(launch.kernel)
        if integers != made.template:
            raise BenchError(f"{made.arm}: ncu counted another kernel in its place: {launch.kernel}")
        grid = re.findall(r"\d+", launch.grid)
        if grid and int(grid[0]) != made.blocks:
            raise BenchError(f"{made.arm}: ncu saw a grid of {grid[0]} blocks, the target launched {made.blocks}")
    return list(counted)


def _launch_row(
    made: LaunchFacts, launch: ProfiledLaunch, metrics: Sequence[MetricRow], counts: LaunchCounts
) -> LaunchRow:
    counted: dict[str, float | None] = {}
    opcodes: dict[str, int] = {}
    for metric in metrics:
        value = launch.values.get(metric.name or "", math.nan)
        if metric.unit == "ns":
            value *= _NS.get(launch.units.get(metric.name or "", ""), math.nan)
        if metric.group == "opcodes":
            opcodes = parse_instances(launch.text.get(metric.name or "", ""))
        counted[metric.key] = value if math.isfinite(value) else None
    return LaunchRow(
        **made.model_dump(),
        kernel=launch.kernel,
        warp_ksteps=counts.warp_ksteps,
        predicted=counts.as_dict(),
        counted=counted,
        opcodes=opcodes,
        addresses=grouped_addresses({metric.key: launch.text.get(metric.name or "", "") for metric in metrics}),
    )


def _profile(
    ncu: Ncu, tool: CounterTool, config: CountersConfig, available: Available, folder: Path, full: bool
) -> tuple[list[MetricRow], list[str]]:
    """Profile without the metrics that ncu turns out to refuse; returns the names used and ncu's arguments."""
    report = folder / _REPORT
    refused: frozenset[str] = frozenset()
    for _ in range(_MOST_REFUSALS):
        metrics = choose_names(config, available, refused)
        names = [metric.name for metric in metrics if metric.name is not None]
        if not names:
            raise UserError("ncu: none of the metrics in the config exists on this chip")
        arguments = ncu.command(
            tool.target(folder / _FACTS),
            kernel=tool.kernel,
            metrics=names,
            report=report,
            clock_control=config.clock_control,
            cache_control=config.cache_control,
            full=full,
        )
        try:
            ncu.profile(arguments, report, tool.kernel, folder / "log.txt")
        except UnknownMetricError as unknown:
            if not unknown.names & {part for name in names for part in (name, name.split(".")[0])}:
                raise BenchError(f"ncu: cannot count {unknown}, which was not asked for") from None
            refused |= unknown.names
        else:
            return metrics, arguments
    raise BenchError(f"ncu: refused metrics {_MOST_REFUSALS} times over ({', '.join(sorted(refused))})")


def run_counters(
    tool: CounterTool,
    config: CountersConfig,
    ncu: Ncu,
    *,
    device_index: int,
    keep: Path | None = None,
    full: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> CountersRecord:
    """Count every launch of ``tool``'s target once.

    ``keep`` receives the report, ncu's log, the raw CSV and the query's answer. Raises UserError (no permission, filter
    matched nothing, bad target input) and BenchError (ncu or the target failed, launches that do not match).
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="counters-") as scratch:
        folder = Path(scratch)
        try:
            record = _counted(tool, config, ncu, device_index, folder, full, progress)
        finally:
            if keep is not None:
                _keep(folder, keep, tool.name)
    return record.model_copy(update={"seconds": round(time.monotonic() - started, 1)})


def _keep(folder: Path, keep: Path, name: str) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir()):
        shutil.copyfile(path, keep / f"{name}.{path.name}")


def _counted(
    tool: CounterTool,
    config: CountersConfig,
    ncu: Ncu,
    device_index: int,
    folder: Path,
    full: bool,
    progress: Callable[[str], None],
) -> CountersRecord:
    progress(f"{tool.name}: building and checking the kernels")
    _run_bare(tool.target())
    progress(f"{tool.name}: asking ncu which metrics this chip has")
    available = ncu.available(device_index, [name for metric in config.metrics for name in metric.names])
    (folder / "query.txt").write_text(available.text, encoding="utf-8")
    progress(f"{tool.name}: counting")
    metrics, arguments = _profile(ncu, tool, config, available, folder, full)
    (folder / "command.txt").write_text(" ".join([os.fspath(ncu.path), *arguments]) + "\n", encoding="utf-8")
    raw = ncu.raw_page(folder / _REPORT, instances=not full)
    (folder / "raw.csv").write_text(raw, encoding="utf-8")
    facts = Facts.model_validate_json((folder / _FACTS).read_text(encoding="utf-8"))
    launches = match_launches(facts.launches, parse_raw(raw))
    rows = [
        _launch_row(made, launch, metrics, tool.predict(made.arguments))
        for made, launch in zip(facts.launches, launches, strict=True)
    ]
    for metric in metrics:
        if metric.name is not None and all(row.counted[metric.key] is None for row in rows):
            metric.reason = "ncu printed no figure"
    commit, dirty = git_state()
    return CountersRecord(
        tool=tool.name,
        created_utc=created_utc(),
        device=facts.device,
        software={**software_versions(()), **facts.software, "ncu": ncu.version()},
        git_commit=commit,
        git_dirty=dirty,
        source_hash=facts.source_hash,
        sources=facts.sources,
        build_flags=facts.build_flags,
        config=config.model_dump(mode="json"),
        command=["ncu", *_without_paths(arguments)],
        seconds=0.0,
        metrics=metrics,
        drafts=draft_rows(config, available, metrics),
        launches=rows,
    )


def _without_paths(arguments: Sequence[str]) -> list[str]:
    """The arguments as anybody could run them: no temporary files, python by its name."""
    kept = [Path(part).name if os.sep in part and Path(part).is_absolute() else part for part in arguments]
    if "--facts" in kept:
        at = kept.index("--facts")
        del kept[at : at + 2]
    return kept
