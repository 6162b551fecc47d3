"""Where does what was compiled lie, what is it called, and who may build it?

A product is named by the hash of all that it was made from, so an edited header is another product and a finished one
is never checked again. The trap: a lock file outlives a killed build, and whoever waits for it waits for ever; here the
kernel's own lock (flock) decides who builds, and it is gone with the last process that holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stats.base.errors import UserError, say

_LOCK_WAIT_S = 300.0


def cache_dir() -> Path:
    """Where products are kept: ``SMEM_BENCH_CACHE`` or ``smem-bench`` in the user's cache folder.

    Raises UserError when it cannot be made or written.
    """
    explicit = os.environ.get("SMEM_BENCH_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(explicit) if explicit else Path(base) / "smem-bench"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{folder}: build cache cannot be written ({error.strerror}); set SMEM_BENCH_CACHE") from None
    return folder


def product_key(*parts: object) -> str:
    """12 hex digits that differ where any of ``parts`` does; by them a product is named."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the folder's build lock; wait at most ``_LOCK_WAIT_S`` for another builder and say so.

    Makes the folder. Yields the lock's file descriptor: a child that inherits it holds the lock too.
    Raises UserError when the other has not ended by then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "builder").open("a+") as handle:
        deadline = time.monotonic() + _LOCK_WAIT_S
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UserError(
                        f"{folder}: another process has been building for {_LOCK_WAIT_S:.0f} s; "
                        "end it or remove the folder"
                    ) from None
                if not told:
                    say(f"waiting for another build in {folder}")
                    told = True
                time.sleep(0.1)
        yield handle.fileno()
