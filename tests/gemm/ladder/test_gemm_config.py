"""Configs of the GEMM: every named one makes a run, every mistake is named, and the family is declared beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemm.kernel.arguments import parse_shape
from gemm.kernel.variants import DTYPES, LADDER_PAIRS, Kernel, every_kernel
from gemm.ladder.config import GemmConfig, with_changes
from gemm.ladder.run import record_path, spec_of
from micro.model.variants import VARIANTS
from stats.base.config import load_config
from stats.base.errors import UserError

NAMED = [
    "ladder-a",
    "stages",
    "wait-all",
    "swizzle",
    "dtype",
    "shapes",
    "load-mode",
    "epilogue",
    "uncapped",
    "prefetch",
    "prefetch-uncapped",
    "flushed",
    "a1-vs-a3",
]


def load(tmp_path: Path, text: str) -> GemmConfig:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_config(path, GemmConfig)


@pytest.mark.parametrize("name", NAMED)
def test_a_named_config_makes_a_run(name: str) -> None:
    config = load_config(name, GemmConfig)
    arms = {kernel.name for kernel in config.kernels} | {"cublas", "cublas/fp16"}
    for shape in config.shapes:
        spec = spec_of(config, parse_shape(shape))
        assert spec.processes >= 8
        assert spec.twin == f"{spec.reference}.twin"
        assert spec.reference in arms
        assert spec.comparisons
        assert {arm for pair in spec.comparisons for arm in pair} <= arms


def test_the_main_table_is_the_ladder_and_its_comparisons() -> None:
    config = load_config("ladder-a", GemmConfig)
    assert [kernel.name for kernel in config.kernels] == list(VARIANTS)
    assert config.family == list(LADDER_PAIRS)
    assert config.equal_residency == "require"
    assert GemmConfig().family == config.family


def test_each_setting_gets_the_ladders_family() -> None:
    config = GemmConfig(dtypes=["bf16", "fp16"], variants=["A1", "A3"])
    assert config.family == [("A1", "A3"), ("A1/fp16", "A3/fp16")]
    assert config.reference_arm == "A3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variants: [A4]", "variant 'A4' is unknown; choose from " + ", ".join(VARIANTS)),
        ("variants: [A1, A1]", "a value is given twice"),
        ("shapes: [100x128x32]", "m = 100 is not a multiple of 128"),
        ("shapes: [4096]", "shapes"),
        ("stages: [5]", "stages"),
        ("epilogues: [staged]\nstages: [2]", "A1/stages=2/staged: not built"),
        ("comparisons: [[A1, A9]]", "no arm 'A9'"),
        ("variants: [A1]\ncomparisons: [[A1, A3]]", "no arm 'A3'; this config has A1, cublas"),
        ("reference: A3/fp16", "no arm 'A3/fp16'"),
        ("also: [A3/stages=9]", "no kernel 'A3/stages=9'"),
        ("equal_residency: maybe", "equal_residency"),
        ("launches: 0", "launches"),
        ("swizle: on", "swizle"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)


def test_the_command_line_changes_arms_and_then_the_family() -> None:
    config = with_changes(load_config("epilogue", GemmConfig), {"variants": ["A1", "A3"], "epilogues": ["simple"]})
    assert config.family == [("A1", "A3")]
    kept = with_changes(load_config("epilogue", GemmConfig), {"processes": 2})
    assert kept.family[0] == ("A1", "A1/staged")
    with pytest.raises(UserError, match=r"^--l2 'cold': "):
        with_changes(GemmConfig(), {"l2_mode": "cold"})


def test_a_cell_is_milliseconds_whatever_the_shape() -> None:
    config = GemmConfig()
    assert config.launches_for((4096, 4096, 4096)) == 10
    assert config.launches_for((8192, 8192, 8192)) == 1
    assert config.launches_for((128, 128, 32)) == 200
    assert GemmConfig(launches=3).launches_for((8192, 8192, 8192)) == 3


def test_a_record_holds_one_shape() -> None:
    shapes = ["512x512x512", "128x128x32"]
    assert record_path(Path("r/s.jsonl"), shapes[0], shapes) == Path("r/s-512x512x512.jsonl")
    assert record_path(Path("r/s.jsonl"), shapes[0], shapes[:1]) == Path("r/s.jsonl")
    assert record_path(None, shapes[0], shapes) is None
    with pytest.raises(UserError, match=r"name a file such as r/s\.jsonl"):
        record_path(Path("r/s"), shapes[0], shapes)


def test_every_kernel_has_its_own_name_and_group() -> None:
    kernels = list(every_kernel())
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    assert len(kernels) == len(VARIANTS) * (len(DTYPES) * 2 * 4 * 2 + 5)
    assert all(kernel.group for kernel in kernels)
    assert Kernel("A1", dtype="fp16", stages=2, swizzle=False).name == "A1/fp16/stages=2/noswz"
