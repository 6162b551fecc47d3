"""How far off are other benchmarking tools, and how far are we, on the same kernel for the same number of launches?

The parent: it starts a fresh process for each part of the run, gathers what they found into one JSON record with the
raw estimates, and renders the table from such a record without a GPU. The trap: a row in the record is only a summary;
whoever renders it again computes it again, from the estimates.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gemm.truth.tools.design import DO_BENCH, MEASURES, NVBENCH, Comparison, Design, design_from
from gemm.truth.tools.rows import columns_for, summarise
from gemm.truth.tools.worker import NVBENCH_DIED
from stats.base.errors import BenchError, UserError
from stats.base.safe_text import dumped
from stats.base.tables import Format, render, to_json, told
from stats.record.provenance import created_utc, git_state
from stats.record.reader import read_json

TOOLS_RECORD = "gemm-bench tools"
_PROCESS_TIMEOUT_S = 600.0
_OURS_SAYS = "smem-bench is one process's paired blocks, fresh processes regroups the same blocks over all of them"
Worker = Callable[[Mapping[str, Any]], dict[str, Any]]


def fresh_process(job: Mapping[str, Any]) -> dict[str, Any]:
    """Run one job in a process of its own and return its result.

    A process that died or hung after ours and do_bench were done gives their figures. Raises UserError and BenchError.
    """
    with tempfile.TemporaryDirectory(prefix="tools-") as folder:
        job_path, out = Path(folder, "job.json"), Path(folder, "result.json")
        job_path.write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-m", "gemm.truth.tools.worker", str(job_path), str(out)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PROCESS_TIMEOUT_S, check=False)
            status, said = done.returncode, done.stderr.strip().splitlines()
        except subprocess.TimeoutExpired:
            status, said = 1, [f"no end after {_PROCESS_TIMEOUT_S:.0f} s"]
        last = said[-1] if said else f"exit status {status} without a word"
        if status and not out.exists():
            kind = UserError if status == UserError.exit_status else BenchError
            raise kind(f"process {job['process']}: {last}")
        result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        if status and result["missing"].get(NVBENCH) == NVBENCH_DIED:
            result["missing"][NVBENCH] = f"{NVBENCH_DIED} (status {status}): {last[:200]}"
        return result


def run_tools(
    design: Design, *, device: int = 0, worker: Worker = fresh_process, note: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """Run every process and return the record. Raises what ``worker`` raises."""
    commit, dirty = git_state()
    record: dict[str, Any] = {
        "tool": TOOLS_RECORD,
        "created_utc": created_utc(),
        "git_commit": commit,
        "git_dirty": dirty,
        "clocks": "monitored, not locked",
        "config": asdict(design),
        "missing": {},
        "calibrations": [],
    }
    comparisons: list[Comparison] = []
    for process in range(design.processes):
        note(f"process {process + 1} of {design.processes}")
        result = worker({"design": asdict(design), "process": process, "device": device})
        comparisons += [Comparison(**one) for one in result.pop("comparisons")]
        missing = result.pop("missing")
        for tool, reason in missing.items():
            note(f"{tool}: {reason}")
        record["missing"] = {**missing, **record["missing"]}
        record["calibrations"] += [{"process": process, **one} for one in result.pop("calibrations")]
        record |= result
    record["rows"] = summarise(comparisons, design.effects_percent, record["missing"])
    record["comparisons"] = [asdict(one) for one in comparisons]
    return record


def record_text(record: Mapping[str, Any]) -> str:
    """The record as JSON: heading and rows indented, then one comparison a line."""
    heading = to_json({key: value for key, value in record.items() if key != "comparisons"})
    lines = ",\n".join("    " + dumped(one) for one in record["comparisons"])
    return f'{heading[:-2]},\n  "comparisons": [\n{lines}\n  ]\n}}\n'


def read_tools_record(path: Path) -> dict[str, Any]:
    """Read a record and compute its rows anew. Raises UserError for a file that is none."""
    record = read_json(path, f"give the file that {TOOLS_RECORD} --out wrote")
    if not isinstance(record, dict) or record.get("tool") != TOOLS_RECORD:
        raise UserError(f"{path}: not a record of {TOOLS_RECORD}; give the file that {TOOLS_RECORD} --out wrote")
    known = {(tool, measure) for tool, measure, _ in MEASURES}
    try:
        design = design_from(record["config"])
        comparisons = [Comparison(**one) for one in record["comparisons"]]
        for one in comparisons:
            if (one.tool, one.measure) not in known:
                raise UserError(f"{path}: no tool {one.tool!r} with a measure {one.measure!r} is known")
        record["rows"] = summarise(comparisons, design.effects_percent, record["missing"])
    except (KeyError, TypeError, ValueError, AttributeError):
        wanted = "config, comparisons or missing"
        raise UserError(
            f"{path}: a record of {TOOLS_RECORD} that lacks or garbles its {wanted}; record again"
        ) from None
    return record


def tools_text(record: Mapping[str, Any], fmt: Format) -> str:
    """The table of a record as text; JSON carries every key of the rows and the record's heading."""
    design = design_from(record["config"])
    columns, rows = columns_for(design.effects_percent), record["rows"]
    if fmt == "json":
        heading = {key: value for key, value in record.items() if key not in ("comparisons", "rows")}
        return to_json({**heading, "rows": rows}) + "\n"
    device = record.get("device") or {}
    title = f"A/A error and error on injected effects: {design.kernel} {'x'.join(map(str, design.shape))}"
    text = render(columns, rows, fmt, title=title)
    if fmt == "csv":
        return text
    software = record.get("software") or {}
    versions = ", ".join(f"{name} {software[name]}" for name in ("torch", "triton", "cuda_bench") if name in software)
    end = "  \n" if fmt == "md" else "\n"
    lines = [
        f"{device.get('name', 'unknown device')}; {versions}; clocks {record.get('clocks')}; "
        f"{design.processes} processes, seed {design.seed}",
        f"errors are |estimate - truth| in per cent of the shorter side: median, and 95 % quantile for A/A; "
        f"{_OURS_SAYS}; {DO_BENCH} and nvbench cold flush L2 before each launch; × ours compares the 95 % quantiles",
    ]
    lines = [told(line, fmt) for line in lines]
    return f"{text}\n{''.join(line + end for line in lines)}"
