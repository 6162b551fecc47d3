"""Does the hash name the sources and nothing else, and does git's absence harm nobody?"""

from __future__ import annotations

import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from stats.base.errors import UserError
from stats.record.provenance import created_utc, git_state, hash_sources, software_versions


def sources(folder: Path, **contents: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (folder / name).write_text(text)
    return [folder / name for name in contents]


def test_same_contents_give_the_same_hash_in_any_folder_and_order(tmp_path: Path) -> None:
    here = sources(tmp_path / "here", a="int x;", b="int y;")
    there = sources(tmp_path / "far" / "there", b="int y;", a="int x;")
    assert hash_sources(here, ["-O3"]) == hash_sources(there, ["-O3"])
    assert len(hash_sources(here)) == 16


def test_hash_is_the_same_in_every_version_of_this_suite(tmp_path: Path) -> None:
    # Recorded runs carry it: if it changed, every one of them would be called stale.
    files = sources(tmp_path, a="int x;", b="int y;")
    assert hash_sources(files, ["-O3", "-arch=sm_90a"]) == "6a2cdfa26fbbff86"


def test_every_change_changes_the_hash(tmp_path: Path) -> None:
    base = sources(tmp_path / "0", a="int x;", b="int y;")
    hashes = [
        hash_sources(base, ["-O3", "-G"]),
        hash_sources(base, ["-G", "-O3"]),
        hash_sources(base, ["-O3 -G"]),
        hash_sources(base),
        hash_sources(base[:1]),
        hash_sources(base[:1] * 2),
        hash_sources(sources(tmp_path / "1", a="int x;int y;")),
        hash_sources(sources(tmp_path / "2", a="int x; ", b="int y;")),
        hash_sources([]),
    ]
    assert len(set(hashes)) == len(hashes)


def test_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.cu: source cannot be read \(No such file or directory\)"):
        hash_sources([tmp_path / "absent.cu"])


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_commit_and_dirt(tmp_path: Path) -> None:
    sources(tmp_path / "stats", a="1")
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path / "stats") == ("unknown", False)  # no commit yet
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_state(tmp_path / "stats") == (commit, False)
    sources(tmp_path / "stats", new="untracked")
    assert git_state(tmp_path / "stats") == (commit, False)
    sources(tmp_path / "stats", a="2")
    assert git_state(tmp_path / "stats") == (commit, True)


def test_copy_installed_inside_a_foreign_checkout_has_no_commit(tmp_path: Path) -> None:
    sources(tmp_path, a="1", **{".gitignore": ".venv\n"})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "theirs")
    sources(tmp_path / ".venv" / "stats", b="ours")
    assert git_state(tmp_path / ".venv" / "stats") == ("unknown", False)


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state() == ("unknown", False)


def test_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) == ("unknown", False)


def test_versions_are_read_without_importing() -> None:
    versions = software_versions(("numpy", "no-such-package-here"))
    assert set(versions) - {"smem_bench"} == {"python", "numpy"}
    assert all(version[0].isdigit() for version in versions.values())


def test_time_is_utc_to_the_second() -> None:
    when = datetime.fromisoformat(created_utc())
    assert when.utcoffset() == timedelta(0)
    assert when.microsecond == 0
