"""From which sources, with which software, was this measured, and are those still the sources of today?

The one hash of kernels covers contents (of the sources and of every header they reach) and flags, not names, folders or
times, so that it is the same on every machine. A record carries the hash and the files behind it, so that today's hash
can be computed by whoever reads the record, without the packages that build. git is asked, never required. The trap: a
commit alone does not name what ran, because a checkout can be dirty; the hash of the sources does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from stats.base.errors import UserError

PACKAGE_ROOT = Path(__file__).resolve().parents[2]  # the checkout, or the folder that holds the installed packages
_HASH_DIGITS = 16
_GIT_TIMEOUT_S = 10
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def created_utc() -> str:
    """The time now as ISO 8601 in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def git_state(folder: Path | None = None) -> tuple[str, bool]:
    """Commit and whether tracked files differ from it, of the checkout that holds ``folder`` (default: this package).

    Without git, outside a checkout, or for an installed package: what ``SMEM_BENCH_COMMIT`` says (a copy sent to the
    machine with the GPU has no history), else ("unknown", False).
    """
    folder = folder if folder is not None else Path(__file__).resolve().parents[1]
    commit = _git(folder, "rev-parse", "HEAD")
    # An installed copy may lie in a virtual environment inside somebody else's checkout, where git does not track it.
    if not commit or not _git(folder, "ls-files", "."):
        return os.environ.get("SMEM_BENCH_COMMIT", "unknown"), False
    return commit, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def suite_version() -> str:
    """The version of these packages: of the checkout that holds them, else of what is installed; "unknown" of neither.

    The checkout comes first, since another version may be installed beside it.
    """
    with contextlib.suppress(OSError):
        project = (PACKAGE_ROOT / "pyproject.toml").read_text("utf-8")
        if named := re.search(r'^name = "smem-bench"\nversion = "([^"]+)"', project, re.MULTILINE):
            return named[1]
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("smem-bench")
    return "unknown"


def software_versions(packages: Iterable[str] = ("numpy", "torch")) -> dict[str, str]:
    """Versions of python, this suite and those of ``packages`` that are installed, read without importing them."""
    versions = {"python": platform.python_version(), "smem_bench": suite_version()}
    for package in packages:
        try:
            versions[package.replace("-", "_")] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def source_closure(sources: Sequence[Path], include_dirs: Sequence[Path] = ()) -> list[Path]:
    """The sources and every quoted include they reach, each once, in order of first sight.

    Raises UserError for a file that cannot be read.
    """
    found: list[Path] = []
    queue = list(sources)
    while queue:
        path = queue.pop(0).resolve()
        if path in found:
            continue
        found.append(path)
        for name in _INCLUDE.findall(_contents(path).decode("utf-8", "replace")):
            for folder in (path.parent, *include_dirs):
                if (folder / name).exists():
                    queue.append(folder / name)
                    break
    return found


def hash_sources(paths: Iterable[Path], flags: Sequence[str] = ()) -> str:
    """Hash (16 hexadecimal digits) of the contents of ``paths`` and of ``flags`` in their order.

    Names and order of the files do not matter. Raises UserError for a file that cannot be read.
    """
    digests = [hashlib.sha256(_contents(path)).hexdigest() for path in paths]
    whole = hashlib.sha256()
    # Every part has a fixed length or an end mark, so that no two different inputs run together.
    for part in (*sorted(digests), *(f"flag {flag}" for flag in flags)):
        whole.update(part.encode() + b"\0")
    return whole.hexdigest()[:_HASH_DIGITS]


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: source cannot be read ({error.strerror})") from None


def relative_sources(paths: Iterable[Path], root: Path = PACKAGE_ROOT) -> list[str]:
    """``paths`` as a record's header names them: relative to the folder of the packages, with forward slashes.

    A file elsewhere (somebody's own kernel) keeps its absolute name, and can be checked only where it lies.
    """
    return [(path.relative_to(root) if path.is_relative_to(root) else path).as_posix() for path in paths]


def todays_file(name: str, root: Path = PACKAGE_ROOT) -> Path | None:
    """Where the source that a header names lies today: there, or the one file of that name in the same package.

    A kernel that only moved is the same kernel: the hash covers contents, not folders.
    """
    path = root / name
    if path.is_file():
        return path
    package = name.partition("/")[0]
    below = (root / package).rglob("*") if package in ("micro", "gemm") else ()  # a header names what it likes
    found = [one for one in below if one.name == path.name and one.is_file()]
    return found[0] if len(found) == 1 else None


def todays_hash(sources: Sequence[str], flags: Sequence[str], root: Path = PACKAGE_ROOT) -> str | None:
    """The hash that the files named in a header have today with the header's flags; None where one is gone.

    A header that a source has begun to include since is not in the list, but the line that includes it is.
    """
    paths = [path for name in sources if (path := todays_file(name, root)) is not None]
    return hash_sources(paths, flags) if len(paths) == len(sources) else None
