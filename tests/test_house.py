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


CALLS = re.compile(r"\b(cuda(?!GetErrorString)[A-Z]\w*|prepare_kernel)\(")


def unanswered(source: str) -> list[str]:
    """Names of C entry points that call CUDA and return without ``answer``, which forgets the runtime's last error."""
    entries = re.split(r"^(?:int|const \w+\s*\*|\w+) (\w+)\(", source.partition('extern "C" {')[2], flags=re.MULTILINE)
    bodies = zip(entries[1::2], entries[2::2], strict=True)
    return [name for name, body in bodies if CALLS.search(body) and re.search(r"return (?!answer\()", body)]


def test_no_entry_point_leaves_an_error_behind_for_the_next_call_of_torch() -> None:
    sources = [path for path in CUDA_SOURCES if 'extern "C"' in path.read_text(encoding="utf-8")]
    calling = [path.name for path in sources if CALLS.search(path.read_text(encoding="utf-8"))]
    assert {"micro.cu", "instructions.cu", "probe.cu", "gemm.cu", "stream.cu"} <= set(calling)
    assert {path.name: found for path in sources if (found := unanswered(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "body",
    [
        "return cudaLaunchKernel(kernel);",
        "cudaError_t error = prepare_kernel(k);\n  if (error != cudaSuccess) return error;\n  return answer(error);",
    ],
)
def test_an_entry_point_that_would_leave_one_is_found(body: str) -> None:
    source = 'extern "C" {{\n\nint good() {{ return answer(cudaLaunchKernel(k)); }}\nint bad(int a) {{\n  {}\n}}\n}}\n'
    assert unanswered(source.format(body)) == ["bad"]


SWIZZLE = re.compile(r"\^\s*\(\s*\(+\s*\w+\s*(>>\s*1\s*\)\s*)?&\s*[37]\s*\)+\s*(<<\s*3|\*\s*8)")


def test_a_swizzle_is_written_once() -> None:
    holding = [path.name for path in CUDA_SOURCES if SWIZZLE.search(path.read_text(encoding="utf-8"))]
    assert holding == ["layout.cuh"]
    python = [path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in python if SWIZZLE.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "formula",
    [
        "col ^ (((row >> 1) & 3) << 3)",
        "col ^ ((row & 7) << 3)",
        "col^(((row>>1)&3)<<3)",
        "col ^ (((row >> 1) & 3) * 8)",
        "col ^ ((row & 7) * 8)",
    ],
)
def test_a_second_swizzle_would_be_found(formula: str) -> None:
    assert SWIZZLE.search(f"return {formula};")


@pytest.mark.parametrize("formula", ["(row & 7) << 3", "state ^ (state << 13)", "col ^ row", "swizzle_b(row, col)"])
def test_what_is_no_swizzle_passes(formula: str) -> None:
    assert not SWIZZLE.search(f"return {formula};")


# They hand options on to a module that opens as the others do.
ONE_LINE_IS_ENOUGH = {"__main__.py", "cli_counters.py", "campaign_cli.py"}
OPENING_LINES = range(3, 13)


def opening_lines(source: str) -> int:
    """Lines of the module's docstring; 0 without one."""
    return len((ast.get_docstring(ast.parse(source)) or "").splitlines())


def test_every_module_opens_with_the_question_it_answers() -> None:
    lines = {
        str(path.relative_to(ROOT)): opening_lines(path.read_text(encoding="utf-8"))
        for package in MAY_IMPORT
        for path in (ROOT / package).rglob("*.py")
        if path.read_text(encoding="utf-8").strip()
    }
    short = {name for name, count in lines.items() if count not in OPENING_LINES}
    assert {name for name in short if not (lines[name] == 1 and Path(name).name in ONE_LINE_IS_ENOUGH)} == set()


@pytest.mark.parametrize(
    ("source", "count"),
    [("x = 1\n", 0), ('"""One line."""\n', 1), ('"""One.\n\nTwo\nthree.\n"""\n', 4)],
)
def test_a_silent_and_a_terse_module_are_told_from_one_that_opens(source: str, count: int) -> None:
    assert opening_lines(source) == count
    assert (count in OPENING_LINES) == (count == 4)
