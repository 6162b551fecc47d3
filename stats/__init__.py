"""Paired trials in fresh processes, and what may be claimed from them.

The names below are the public interface; each is loaded when it is first used, so that importing the package costs
nothing. ``run_trials`` measures, ``read_record`` reads what was measured, ``analyse`` and ``compare_runs`` judge it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stats.compare import analyse
    from stats.errors import BenchError, UserError
    from stats.inference import Inference, Interval, infer, infer_unpaired
    from stats.records import Cell, Record, read_record
    from stats.results import Analysis, Comparison, to_json
    from stats.trials import ArmSet, TrialSpec, run_trials
    from stats.two_runs import compare_runs
    from stats.verdicts import Caution, Verdict, decide

__all__ = [
    "Analysis",
    "ArmSet",
    "BenchError",
    "Caution",
    "Cell",
    "Comparison",
    "Inference",
    "Interval",
    "Record",
    "TrialSpec",
    "UserError",
    "Verdict",
    "analyse",
    "compare_runs",
    "decide",
    "infer",
    "infer_unpaired",
    "read_record",
    "run_trials",
    "to_json",
]

_HOME = {
    "Analysis": "results",
    "ArmSet": "trials",
    "BenchError": "errors",
    "Caution": "verdicts",
    "Cell": "records",
    "Comparison": "results",
    "Inference": "inference",
    "Interval": "inference",
    "Record": "records",
    "TrialSpec": "trials",
    "UserError": "errors",
    "Verdict": "verdicts",
    "analyse": "compare",
    "compare_runs": "two_runs",
    "decide": "verdicts",
    "infer": "inference",
    "infer_unpaired": "inference",
    "read_record": "records",
    "run_trials": "trials",
    "to_json": "results",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"stats.{_HOME[name]}"), name)
    raise AttributeError(f"module 'stats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
