"""Is each package covered as far as it has to be, by lines and by branches? ``make coverage`` ends with this.

Reads the JSON report of coverage.py. The trap: its own ``fail_under`` mixes lines with branches and packages with each
other, so that a well-tested package would hide another.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLOORS_PERCENT = {"stats": 95.0, "micro": 85.0, "gemm": 85.0}


def covered_percent(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Per cent of lines and of branches that ran, package by package; 0 for a package of which nothing was seen."""
    counts: dict[str, Counter[str]] = {package: Counter() for package in FLOORS_PERCENT}
    for file, found in report["files"].items():
        package = Path(file).parts[0]
        if package in counts:
            counts[package].update({key: found["summary"][key] for key in found["summary"] if "percent" not in key})
    return {
        package: {
            "lines": 100 * count["covered_lines"] / max(count["num_statements"], 1),
            "branches": 100 * count["covered_branches"] / max(count["num_branches"], 1),
        }
        for package, count in counts.items()
    }


def main(path: str) -> int:
    """Print a line for each package; 1 if one of its figures is below the floor."""
    status = 0
    for package, found in covered_percent(json.loads(Path(path).read_text(encoding="utf-8"))).items():
        below = [kind for kind, percent in found.items() if percent < FLOORS_PERCENT[package]]
        status |= bool(below)
        figures = ", ".join(f"{kind} {percent:.1f} %" for kind, percent in found.items())
        verdict = f"BELOW in {' and '.join(below)}" if below else "held"
        print(f"{package}: {figures}; floor {FLOORS_PERCENT[package]:.0f} %: {verdict}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
