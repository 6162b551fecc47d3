"""The house keeps its order: imports run one way, CUDA sources know no torch, one place holds the address formulas."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {"stats": {"stats"}, "micro": {"stats", "micro"}, "gemm": {"stats", "micro", "gemm"}}


def imports_of(source: str) -> set[str]:
    """First parts of every module that a source imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def wrong_way(package: str, source: str) -> set[str]:
    """Packages of the house that ``package`` must not import but does; torch and CUDA bindings count for stats."""
    found = imports_of(source)
    forbidden = set(MAY_IMPORT) - MAY_IMPORT[package]
    if package == "stats":
        forbidden |= {"torch", "cupy", "triton", "cuda"}
    return found & forbidden


@pytest.mark.parametrize("package", list(MAY_IMPORT))
def test_imports_run_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = {str(file.relative_to(ROOT)): wrong_way(package, file.read_text(encoding="utf-8")) for file in files}
    assert {file: names for file, names in wrong.items() if names} == {}


def test_an_import_against_the_arrow_is_found() -> None:
    assert wrong_way("stats", "def f():\n    from micro.banks import wavefronts\n") == {"micro"}
    assert wrong_way("stats", "import torch.cuda\n") == {"torch"}
    assert wrong_way("micro", "import gemm\n") == {"gemm"}
    assert wrong_way("gemm", "import micro, stats, torch\n") == set()


CUDA_SOURCES = sorted(path for package in ("micro", "gemm") for path in (ROOT / package / "cuda").rglob("*.c*"))
TORCH = re.compile(r"#\s*include\s*[<\"](torch|ATen|c10|pybind11|Python\.h)")


def test_cuda_sources_are_torch_free() -> None:
    assert len(CUDA_SOURCES) > 10
    assert [path.name for path in CUDA_SOURCES if TORCH.search(path.read_text(encoding="utf-8"))] == []
    assert TORCH.search("#include <torch/extension.h>")
    assert TORCH.search('#include "ATen/cuda/CUDAContext.h"')


SWIZZLE = re.compile(r"\^\s*\(\s*\(+\s*\w+\s*(>>\s*1\s*\)\s*)?&\s*[37]\s*\)+\s*<<\s*3")


def test_a_swizzle_is_written_once() -> None:
    holding = [path.name for path in CUDA_SOURCES if SWIZZLE.search(path.read_text(encoding="utf-8"))]
    assert holding == ["layout.cuh"]
    python = [path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in python if SWIZZLE.search(path.read_text(encoding="utf-8"))] == []


def test_every_module_opens_with_the_question_it_answers() -> None:
    modules = [path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py")]
    silent = [
        str(path.relative_to(ROOT))
        for path in modules
        if path.read_text(encoding="utf-8").strip()
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []
