"""Paired trials in fresh processes, and what may be claimed from them.

The names below are the public interface; each is loaded when it is first used, so that importing the package costs
nothing. ``run_trials`` measures, ``read_record`` reads what was measured, ``analyse`` and ``compare_runs`` judge it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stats.analysis.compare import analyse
    from stats.analysis.effect import Inference, Interval
    from stats.analysis.inference import infer, infer_unpaired
    from stats.analysis.results import Analysis, Comparison, to_json
    from stats.analysis.two_runs import compare_runs
    from stats.analysis.verdicts import Caution, Verdict, decide
    from stats.base.errors import BenchError, UserError
    from stats.record.reader import read_record
    from stats.record.schema import Cell, Record
    from stats.run.spec import TrialSpec
    from stats.run.trials import run_trials
    from stats.run.worker import ArmSet

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
    "Analysis": "analysis.results",
    "ArmSet": "run.worker",
    "BenchError": "base.errors",
    "Caution": "analysis.verdicts",
    "Cell": "record.schema",
    "Comparison": "analysis.results",
    "Inference": "analysis.effect",
    "Interval": "analysis.effect",
    "Record": "record.schema",
    "TrialSpec": "run.spec",
    "UserError": "base.errors",
    "Verdict": "analysis.verdicts",
    "analyse": "analysis.compare",
    "compare_runs": "analysis.two_runs",
    "decide": "analysis.verdicts",
    "infer": "analysis.inference",
    "infer_unpaired": "analysis.inference",
    "read_record": "record.reader",
    "run_trials": "run.trials",
    "to_json": "analysis.results",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"stats.{_HOME[name]}"), name)
    raise AttributeError(f"module 'stats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
