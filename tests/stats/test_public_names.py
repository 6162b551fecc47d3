"""The public names of ``stats``: all there, each a value and no module, and none loaded before it is used."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import stats


def test_every_public_name_is_there() -> None:
    for name in stats.__all__:
        assert not isinstance(getattr(stats, name), ModuleType), name
    assert set(stats.__all__) <= set(dir(stats))
    assert stats.__all__ == sorted(stats._HOME)


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        stats.no_such  # noqa: B018


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, stats; print(sorted(name for name in sys.modules if name.startswith(('stats.', 'numpy'))))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
