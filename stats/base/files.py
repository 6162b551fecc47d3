"""Write a file whole or not at all: a reader, or a killed command, never sees half of it.

The trap: a temporary file beside the target is renamed over it, so the target's mode must be carried over, and a
symbolic link must be followed first or the link itself would be replaced. A device or a pipe is written to instead:
root may rename over ``/dev/null``, and then every program of the machine has a file there.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from stats.base.errors import UserError, need_no_folder


def need_place(option: str, out: Path) -> None:
    """Raises UserError, before any work, where the file ``out`` could not be written afterwards."""
    need_no_folder(out, option)
    if not out.parent.is_dir():
        raise UserError(f"{option} {out}: there is no folder {out.parent}; make it first")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise UserError(f"{option} {out}: cannot be written; choose another place")


def need_folder(option: str, folder: Path) -> None:
    """Raises UserError, before any work, where ``folder`` is none and could not be made."""
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not place.is_dir():
        raise UserError(f"{option} {folder}: {place} is no folder; choose another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{option} {folder}: cannot be written; choose another place")


def refuse_records(option: str, out: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that would replace what is read, under whatever name, or any JSON Lines file that is there.

    Raises UserError naming ``option`` and the file; a folder is refused, too.
    """
    need_no_folder(out, option)
    target = out.resolve()
    for path in inputs:
        # A hard link has another resolved name, a record not yet there has no identity: both are asked.
        if target == path.resolve() or (out.exists() and path.exists() and out.samefile(path)):
            raise UserError(f"{option} {out}: is one of the records; choose another file")
    if target.name.endswith((".jsonl", ".jsonl.gz")) and target.exists():
        raise UserError(f"{option} {out}: exists already and may be a record; choose another file")


def write_whole(path: Path, content: bytes) -> bool:
    """Put ``content`` into ``path`` by rename; False (and an untouched file) when that is what it already holds.

    Folders are made, devices and pipes written to. Raises UserError when it cannot be written; what was there before
    then stays.
    """
    return bool(write_all({path: content}))


def write_all(contents: Mapping[Path, bytes]) -> list[Path]:
    """Write files as ``write_whole`` does, none before all of them lie on the disk; the paths that changed.

    Raises UserError when one cannot be written: nothing has changed, unless a rename failed after others were done.
    """
    staged: dict[Path, str | None] = {}  # the temporary file; None for what is no regular file
    try:
        for path, content in contents.items():
            try:
                if path.exists() and not path.is_file():
                    staged[path] = None
                elif not (path.is_file() and path.read_bytes() == content):
                    staged[path] = _staged(path.resolve(), content)
            except OSError as error:
                raise _unwritten(path, error) from None
        for path, temporary in staged.items():
            try:
                if temporary is None:
                    path.write_bytes(contents[path])
                else:
                    os.replace(temporary, path.resolve())
            except OSError as error:
                raise _unwritten(path, error) from None
    finally:
        for temporary in filter(None, staged.values()):
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return list(staged)


def _staged(target: Path, content: bytes) -> str:
    """A temporary file beside ``target`` that holds ``content`` and has its mode."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
    except BaseException:  # Ctrl+C, too
        os.unlink(temporary)
        raise
    return temporary


def _unwritten(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be written ({error.strerror}); it is as it was before")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
