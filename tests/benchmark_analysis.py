"""How long does an analysis of 100,000 cells take? Prints seconds; nothing asserts them, since machines differ.

Run as ``python tests/benchmark_analysis.py``. The first analysis pays for importing scipy and statsmodels.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stats.record.reader import read_record
from stats.record.writer import RecordWriter
from tests.makers.synthetic import make_record


def main() -> None:
    record = make_record({"A1": 0.03, "A2": 0.01, "A2L": 0.0, "A3": 0.0, "A3.twin": 0.0}, processes=8, blocks=2500)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        with RecordWriter(path, record.header) as writer:
            for cell in record.cells:
                writer.append(cell)
        start = time.process_time()
        record = read_record(path)
        print(f"read {len(record.cells):,} cells: {time.process_time() - start:.2f} s")
    for label in ("analyse, imports included", "analyse again"):
        start = time.process_time()
        from stats.analysis.compare import analyse

        result = analyse(record)
        print(f"{label}: {time.process_time() - start:.2f} s of CPU time, {len(result.comparisons)} comparisons")


if __name__ == "__main__":
    main()
