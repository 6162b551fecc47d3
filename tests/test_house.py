"""The house keeps its order: imports run one way, CUDA sources know no torch, one place holds the address formulas."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Each room and those it stands on: it may import these, and all that they may. A room is a folder of a package.
ROOMS = {
    "stats.base": (),
    "stats.record": ("stats.base",),
    "stats.run": ("stats.record",),
    "stats.analysis": ("stats.record",),
    "stats.report": ("stats.analysis",),
    "stats.proof": ("stats.analysis",),
    "micro.gpu": ("stats.run",),
    "micro.model": ("micro.gpu",),
    "micro.code": ("micro.model",),
    "micro.bench": ("micro.model", "stats.report"),
    "micro.counters": ("micro.bench",),
    "micro.doctor": ("micro.gpu",),
    "micro.pictures": ("micro.model",),
    "gemm.kernel": ("micro.code", "micro.bench"),
    "gemm.ladder": ("gemm.kernel",),
    "gemm.counters": ("gemm.ladder", "micro.counters"),
    "gemm.truth": ("gemm.ladder",),
    "gemm.simulator": ("gemm.kernel",),
    "gemm.explain": ("gemm.ladder", "gemm.simulator"),
    "gemm.claims": ("gemm.explain", "micro.counters"),
}
PACKAGES = ("stats", "micro", "gemm")  # each may import itself and those before it
DATA_FOLDERS = {"cuda"}


def may_import(room: str) -> set[str]:
    """Rooms that a room may import: itself, those it stands on, and theirs; a cli all of its package and below."""
    package, _, name = room.partition(".")
    if name in ("cli", ""):  # "": what lies in the package itself is a door: __init__, __main__
        below = PACKAGES[: PACKAGES.index(package) + 1]
        return {one for one in ROOMS if one.split(".")[0] in below} | {f"{one}.cli" for one in below if name}
    return {room}.union(*(may_import(one) for one in ROOMS[room]))


def room_of(module: str) -> str:
    """``stats.report.figures.bars`` -> ``stats.report``; a package's own module is in the room with its name alone."""
    package, _, rest = module.partition(".")
    return f"{package}.{rest.split('.')[0]}" if (ROOT / package / rest.split(".")[0]).is_dir() and rest else package


def imports_of(source: str) -> set[str]:
    """Every module, or name in a module, that a source imports, inside functions and for types alone, too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide which room is meant"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def wrong_way(room: str, source: str) -> set[str]:
    """What a source in ``room`` imports but must not; torch and CUDA bindings count for stats."""
    allowed = may_import(room)
    wrong = {name for name in imports_of(source) if name.split(".")[0] in PACKAGES and room_of(name) not in allowed}
    if room.split(".")[0] == "stats":
        wrong |= {name for name in imports_of(source) if name.split(".")[0] in ("torch", "cupy", "triton", "cuda")}
    return wrong


def test_imports_run_one_way() -> None:
    files = [path.relative_to(ROOT) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 100
    wrong = {}
    for file in files:
        room = room_of(".".join(file.with_suffix("").parts))
        wrong[str(file)] = wrong_way(room, (ROOT / file).read_text(encoding="utf-8"))
    assert {file: names for file, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("stats.base", "def f():\n    from stats.record.schema import Cell\n", {"stats.record.schema.Cell"}),
        ("stats.analysis", "from stats.run import clocks\n", {"stats.run.clocks"}),
        ("stats.report", "if TYPE_CHECKING:\n    import stats.proof.nulls\n", {"stats.proof.nulls"}),
        ("stats.cli", "def f():\n    from micro.model.banks import wavefronts\n", {"micro.model.banks.wavefronts"}),
        ("stats.run", "import torch.cuda\n", {"torch.cuda"}),
        ("stats.run", "import stats\n", {"stats"}),  # the door stands in front of every room
        ("micro.gpu", "from micro.model.variants import VARIANTS\n", {"micro.model.variants.VARIANTS"}),
        ("micro.counters", "from micro.cli import static\n", {"micro.cli.static"}),
        ("micro.cli", "import gemm\n", {"gemm"}),
        ("gemm.simulator", "from gemm.explain.evidence import Evidence\n", {"gemm.explain.evidence.Evidence"}),
        ("gemm.cli", "from micro.cli import static\nfrom gemm.claims import text\nimport torch\n", set()),
        ("gemm.claims", "from stats.base.errors import UserError\nfrom gemm.claims import text\n", set()),
    ],
)
def test_an_import_against_the_arrow_is_found(room: str, source: str, wrong: set[str]) -> None:
    assert wrong_way(room, source) == wrong


def test_the_table_of_rooms_is_the_house() -> None:
    folders = {
        f"{package}.{path.name}"
        for package in PACKAGES
        for path in (ROOT / package).iterdir()
        if path.is_dir() and path.name not in DATA_FOLDERS | {"__pycache__"}
    }
    assert folders == {*ROOMS, *(f"{package}.cli" for package in PACKAGES)}
    loose = {path.name for package in PACKAGES for path in (ROOT / package).glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}


def test_no_room_is_a_hall_and_each_says_what_it_holds() -> None:
    for package in PACKAGES:
        for folder in {path.parent for path in (ROOT / package).rglob("*.py")}:
            assert len(list(folder.glob("*.py"))) <= 21, folder
            if folder != ROOT / package or package == "stats":
                assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), folder


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
    python = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
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


def opening(source: str) -> str:
    """The first sentence of the module's docstring; empty without one."""
    return re.split(r"(?<=[.?!])\s", ast.get_docstring(ast.parse(source)) or "", maxsplit=1)[0]


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if (text := path.read_text(encoding="utf-8")).strip() and not opening(text).endswith((".", "?", "!"))
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("x = 1\n", ""),
        ('"""no sentence"""\n', "no sentence"),
        ('"""One. Two."""\n', "One."),
        ('"""Why?\n\nSo.\n"""\n', "Why?"),
    ],
)
def test_a_silent_module_is_told_from_one_that_speaks(source: str, sentence: str) -> None:
    assert opening(source) == sentence
    assert opening(source).endswith((".", "?", "!")) == (sentence in ("One.", "Why?"))
