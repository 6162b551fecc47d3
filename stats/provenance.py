"""From which sources, with which software, was this measured?

The hash covers contents and flags, not paths or times, so that the same sources give the same hash in any folder and
in any order of listing. git is asked, never required. The trap: a commit alone does not name what ran, because a
checkout can be dirty; the hash of the sources does.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from stats.errors import UserError

__all__ = ["created_utc", "git_state", "hash_sources", "software_versions"]

_HASH_DIGITS = 16
_GIT_TIMEOUT_S = 10


def created_utc() -> str:
    """The time now as ISO 8601 in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def git_state(folder: Path | None = None) -> tuple[str, bool]:
    """Commit and whether tracked files differ from it, of the checkout that holds ``folder`` (default: this package).

    ("unknown", False) without git, outside a checkout, or for an installed package.
    """
    folder = folder if folder is not None else Path(__file__).resolve().parent
    commit = _git(folder, "rev-parse", "HEAD")
    # An installed copy may lie in a virtual environment inside somebody else's checkout, where git does not track it.
    if not commit or not _git(folder, "ls-files", "."):
        return "unknown", False
    return commit, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def software_versions(packages: Iterable[str] = ("numpy", "torch")) -> dict[str, str]:
    """Versions of python, this suite and those of ``packages`` that are installed, read without importing them."""
    versions = {"python": platform.python_version()}
    for package in ("smem-bench", *packages):
        try:
            versions[package.replace("-", "_")] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def hash_sources(paths: Iterable[Path], flags: Sequence[str] = ()) -> str:
    """Hash (16 hexadecimal digits) of the contents of ``paths`` and of ``flags`` in their order.

    Names and order of the files do not matter. Raises UserError for a file that cannot be read.
    """
    digests = []
    for path in paths:
        try:
            digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError as error:
            raise UserError(f"{path}: source cannot be read ({error.strerror})") from None
    whole = hashlib.sha256()
    # Every part has a fixed length or an end mark, so that no two different inputs run together.
    for part in (*sorted(digests), *(f"flag {flag}" for flag in flags)):
        whole.update(part.encode() + b"\0")
    return whole.hexdigest()[:_HASH_DIGITS]
