"""Small runs of the arms in ``dummy_arms``, and one that listens to them, for tests of the runner."""

from __future__ import annotations

from dataclasses import replace

import pynvml

from stats.record.schema import CellRow
from stats.run.progress import Silent
from stats.run.spec import TrialSpec
from tests.stand_in.nvml import FakeNvml

SPEC = TrialSpec(tool="test", reference="A", processes=2, blocks=4, warmup_blocks=1, comparisons=[("A", "B")])
ONE = replace(SPEC, processes=1)
NO_DRIVER = FakeNvml(refuse={"nvmlInit": pynvml.NVML_ERROR_DRIVER_NOT_LOADED})


class Listener(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.total = (0, 0)
        self.rows: list[CellRow] = []
        self.ended = 0

    def begin(self, cells: int, done: int) -> None:
        self.total = (cells, done)

    def advance(self, row: CellRow) -> None:
        self.rows.append(row)

    def note(self, text: str) -> None:
        self.said.append(text)

    def end(self) -> None:
        self.ended += 1
