"""A record that cannot be written, or no further: one line, whole rows kept, nothing in the way of the next run."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stats.base.errors import UserError
from stats.record.reader import read_record
from stats.record.writer import RecordWriter, check_writable
from tests.makers.rows import ROWS, cell, header, written


def test_a_record_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    before = written(path, *ROWS)
    for attempt in (lambda: RecordWriter(path, header()), lambda: check_writable(path)):
        with pytest.raises(UserError, match=r"a\.jsonl: exists already; choose another --out, or continue it with"):
            attempt()
    assert path.read_bytes() == before


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "a.jsonl"
    for attempt in (lambda: RecordWriter(path, header()), lambda: check_writable(path)):
        with pytest.raises(UserError, match=r"cannot be written \(No such file or directory\); choose another --out"):
            attempt()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no /proc")
def test_folder_that_takes_no_files() -> None:
    path = Path("/proc/self/a.jsonl")  # refuses even root
    for attempt in (lambda: RecordWriter(path, header()), lambda: check_writable(path)):
        with pytest.raises(UserError, match=r"cannot be written \("):
            attempt()


def test_check_leaves_nothing_behind_and_sees_a_disk_too_small(tmp_path: Path) -> None:
    check_writable(tmp_path / "a.jsonl", 1000)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match=r"MB free and the record needs about .* MB; make room"):
        check_writable(tmp_path / "a.jsonl", 1 << 60)


_FULL_DISK = """
import resource, sys
from pathlib import Path
from stats.record.writer import RecordWriter, read_record
from stats.base.errors import UserError
from tests.makers.rows import cell, header
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
written = 0
try:
    with RecordWriter(path, header()) as writer:
        while True:
            writer.append(cell(block=written))
            written += 1
except UserError as error:
    print(written, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.mark.parametrize("limit_bytes", [4000, 4100, 100])
def test_full_disk_is_one_line_and_keeps_whole_rows(tmp_path: Path, limit_bytes: int) -> None:
    # A limit on the size of files fails like a full disk does: a part of the line is taken, then comes an error.
    path = tmp_path / "a.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(path), str(limit_bytes)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    written_rows, message = done.stdout.split(" ", 1)
    assert "writing failed (File too large); the rows before it are kept" in message
    if limit_bytes == 100:  # not even the header: nothing stays in the way of the next attempt
        assert not path.exists()
        return
    record = read_record(path)
    assert record.torn_line is None
    assert len(record.cells) == int(written_rows) > 0


def test_device_without_space(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "a.jsonl", header())
    writer.append(cell())
    full = os.open("/dev/full", os.O_WRONLY)
    assert writer._fd is not None
    os.dup2(full, writer._fd)
    os.close(full)
    with pytest.raises(UserError, match=os.strerror(errno.ENOSPC)):
        writer.append(cell(block=1))
    assert len(writer.record.cells) == 1
    writer.close()


def test_a_record_that_another_run_writes_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with RecordWriter(path, header()), pytest.raises(UserError, match="another run is writing"):
        RecordWriter(path, header(), resume=True)
    with RecordWriter(path, header(), resume=True) as writer:
        writer.append(cell())


def test_header_that_finds_no_space_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int, _line: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("stats.record.writer.os.write", full)
    with pytest.raises(UserError, match=r"writing failed \(No space left on device\)"):
        RecordWriter(tmp_path / "a.jsonl", header())
    assert list(tmp_path.iterdir()) == []


def test_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("stats.record.writer.fcntl.flock", no_locks)
    written(tmp_path / "a.jsonl", *ROWS)
    assert len(read_record(tmp_path / "a.jsonl").cells) == 2
