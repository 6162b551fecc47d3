"""Which attempt of a process counts, and is a record of another run refused by the name of the field?"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from stats.base.errors import UserError
from stats.record.attempts import complete_attempts, final_cells, next_attempt, require_same_run
from stats.record.schema import (
    ArmInfo,
    CellRow,
    ClockState,
    Device,
    Header,
    ProcessRow,
    Record,
    SkipRow,
)
from tests.makers.rows import cell, header


def attempt_cells(process: int, attempt: int, blocks: int = 2, arms: str = "AB") -> list[CellRow]:
    return [cell(process, block, arm, attempt) for block in range(blocks) for arm in arms]


def record_of(*cells: CellRow, **changes: Any) -> Record:
    return Record(header(**changes), cells=list(cells))


def test_the_last_complete_attempt_counts() -> None:
    record = record_of(
        *attempt_cells(0, 0),
        *attempt_cells(1, 0, blocks=1),
        *attempt_cells(1, 1),
        *attempt_cells(0, 1),
        *attempt_cells(0, 2, blocks=1),
        *attempt_cells(2, 0, arms="A"),
    )
    assert complete_attempts(record) == {0: 1, 1: 1}
    # As text: what was not measured is nan, which equals nothing.
    assert repr(final_cells(record)) == repr(attempt_cells(1, 1) + attempt_cells(0, 1))


def test_a_repeated_cell_does_not_complete_an_attempt() -> None:
    assert complete_attempts(record_of(*attempt_cells(0, 0, blocks=1) * 2)) == {}


def test_skipped_arms_are_not_waited_for() -> None:
    record = record_of(*attempt_cells(0, 0, arms="A"))
    assert complete_attempts(record) == {}
    record.add(SkipRow("B", "needs sm_100"))
    assert complete_attempts(record) == {0: 0}


def test_next_attempt_knows_cells_and_events() -> None:
    record = record_of(*attempt_cells(0, 0))
    record.add(ProcessRow(1, "failed", attempt=2))
    assert [next_attempt(record, process) for process in range(3)] == [1, 3, 0]


DEVICE = Device(name="X", uuid="u", compute_capability="9.0", sm_count=132)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tool": "other"}, "tool"),
        ({"seed": 2}, "seed"),
        ({"blocks": 4}, "blocks"),
        ({"margin_percent": 1.0}, "margin_percent"),
        ({"comparisons": [("B", "A")]}, "comparisons"),
        ({"twin": "B"}, "twin"),
        ({"l2_mode": "flushed"}, "l2_mode"),
        ({"config": {"a": {"b": 2}}}, r"config\.a\.b"),
        ({"config": {}}, r"config\.a"),
        ({"source_hash": "other"}, "source_hash"),
        ({"build_flags": ["-G"]}, "build_flags"),
        ({"arms": [ArmInfo(name="A"), ArmInfo(name="C")]}, "arms"),
        ({"arms": [ArmInfo(name="B"), ArmInfo(name="A")]}, "arms"),
        ({"device": DEVICE.model_copy(update={"uuid": "v"})}, r"device\.uuid"),
        ({"device": None}, "device"),
        ({"software": {"torch": "9"}}, r"software\.torch"),
        ({"workload": {"m": 1}}, r"workload\.m"),
        ({"clocks": ClockState(requested="auto", effective="lock", label="locked")}, "clocks"),
    ],
)
def test_another_run_is_refused_by_the_name_of_the_field(changes: dict[str, Any], field: str) -> None:
    old = header(config={"a": {"b": 1}}, device=DEVICE)
    require_same_run(old, old)
    with pytest.raises(UserError, match=f"^{field}: the record has .*, this run .*; choose another --out"):
        require_same_run(old, header(**{"config": {"a": {"b": 1}}, "device": DEVICE, **changes}))


def test_what_a_journey_through_json_changes_is_no_difference() -> None:
    config = {"pair": (1, 2), "limit": math.nan}
    old = Header.model_validate_json(
        json.dumps({**header().model_dump(mode="json"), "config": {"pair": [1, 2], "limit": None}})
    )
    require_same_run(old, header(config=config, run_id="other", created_utc="later"))
