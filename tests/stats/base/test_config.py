"""Is a config that does not fit refused on one line with file, line, key and what is allowed, without a traceback?"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from stats.base import config as config_module
from stats.base.config import ConfigModel, config_names, find_config, load_config
from stats.base.config_text import parse_yaml
from stats.base.errors import UserError
from stats.run.config import TrialConfig


class Kernel(ConfigModel):
    variant: Literal["A1", "A2", "A3"]
    stages: int = 3


class Memory(ConfigModel):
    pitch_bytes: int = 128


class Experiment(TrialConfig):
    kernels: list[Kernel] = Field(default_factory=list)
    memory: Memory = Memory()
    by_name: dict[str, Kernel] = Field(default_factory=dict)
    either: Kernel | Memory | None = None
    rate: float = 1.0


def write(folder: Path, text: str) -> Path:
    path = folder / "try.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_values_defaults_and_types(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "processes: 4\nrate: 1e-3\ncomparisons:\n  - [A1, A3]\n  - [A2, A3]\nkernels:\n- variant: A3\n  stages: 2\n",
    )
    config = load_config(path, Experiment)
    assert config.processes == 4
    assert config.blocks == 20
    assert config.rate == 0.001
    assert config.comparisons == [("A1", "A3"), ("A2", "A3")]
    assert config.kernels == [Kernel(variant="A3", stages=2)]
    assert load_config(str(path), Experiment) == config


def test_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "# nothing\n"), TrialConfig) == TrialConfig()


def test_values_are_fixed_once_read() -> None:
    with pytest.raises(ValidationError):
        TrialConfig().blocks = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("processes: 4\nblokcs: 6\n", 2, "blokcs: unknown key; did you mean blocks? allowed: blocks, by_name, c"),
        ("processes: four\n", 1, 'processes: "four" is not an integer'),
        ("processes: '4'\n", 1, 'processes: "4" is not an integer'),
        ("processes: 4.5\n", 1, "processes: 4.5 is not an integer"),
        ("processes: true\n", 1, "processes: true is not an integer"),
        ("processes: 0\n", 1, "processes: 0 is below 1"),
        ("seed: 1\n\nblocks: 7\n", 3, "blocks: 7 is odd"),
        ("clocks: locked\n", 1, "clocks: 'locked' is not one of 'lock', 'monitor' or 'auto'"),
        ("margin_percent: .nan\n", 1, "margin_percent: NaN is not a finite number"),
        ("cell_timeout_s: .inf\n", 1, "cell_timeout_s: Infinity is not a finite number"),
        ("margin_percent: 2024-01-01\n", 1, 'margin_percent: "2024-01-01" is not a number'),
        ("comparisons:\n- [A, B]\n- [A]\n", 3, "comparisons[1]"),
        ("comparisons:\n- [A, true]\n", 2, "comparisons[0][1]: true is not text"),
        ("comparisons:\n- [A, A]\n", 1, "comparisons: A is compared with itself"),
        ("kernels:\n- variant: A1\n- variant: A9\n", 3, "kernels[1].variant: 'A9' is not one of 'A1', 'A2' or 'A3'"),
        ("kernels:\n- stages: 2\n", 2, "kernels[0].variant: missing"),
        ("kernels:\n- variant: A1\n  stage: 2\n", 3, "kernels[0].stage: unknown key; did you mean stages? allowed"),
        (
            "by_name:\n  x:\n    variant: A1\n    pitch: 1\n",
            4,
            "by_name.x.pitch: unknown key; allowed: stages, variant",
        ),
        ("memory:\n  pitch: 2\n", 2, "memory.pitch: unknown key; did you mean pitch_bytes? allowed: pitch_bytes"),
        ("memory: 3\n", 1, "memory: "),
        ("either:\n  nothing: 1\n", 1, "either"),
        ("processes: 4\nprocesses: 5\n", 2, "processes: given already in line 1"),
        ("memory:\n  pitch_bytes: 1\n  pitch_bytes: 2\n", 3, "pitch_bytes: given already in line 2"),
        ("processes: 4\n  blocks: 6\n", 2, "not YAML"),
        ("processes: [4\nblocks: 6\n", 2, "not YAML"),
        ("a: &x 1\nb: *x\n", 2, "aliases (*x) are not supported"),
        ("- 1\n- 2\n", 1, "not a mapping"),
        ("12\n", 1, "not a mapping"),
        ("1: 2\n", 1, "key '1' is not text; put it in quotes"),
        ("? [a, b]\n: 1\n", 1, "key 'a list or mapping' is not text"),
        ("processes: !!python/object:os.system {}\n", 1, "not YAML: could not determine a constructor"),
        ("processes: 1\n---\nprocesses: 2\n", 2, "not YAML: but found another document"),
    ],
)
def test_one_line_with_file_line_and_key(tmp_path: Path, text: str, line: int, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        load_config(path, Experiment)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert says in message
    assert "\n" not in message


def test_several_mistakes_are_counted_and_the_first_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r":2: blocks: .*\(and 2 more\)$"):
        load_config(write(tmp_path, "seed: 1\nblocks: x\nprocesses: y\nclocks: z\n"), TrialConfig)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a: \xff\xfe\n", "not UTF-8"),
        (b"a: \x00\n", "not YAML"),
        (b"a: !!int x\n", "a value that no config holds"),
        (b"a: !!binary aGVsbG8=\n", "a value that no config holds"),
        (b"a: !!int 0x_\n", "a value that no config holds"),
        (b"a: " + b"[" * 1000 + b"]" * 1000, "1: nested too deeply; a config has at most 32 levels"),
        (b"a: " + b"[" * 400_000, "nested too deeply"),  # minutes, were it parsed before it is counted
        (b"".join(b" " * i + b"a:\n" for i in range(100)), "33: nested too deeply"),
        (b"a:\n - " + b"7" * 5000, "2: an integer of 5000 digits, which no key takes"),
        (b"#" * (2 << 20), "at most"),
    ],
)
def test_what_is_no_config_at_all(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_bytes(data)
    with pytest.raises(UserError, match=says) as caught:
        load_config(path, TrialConfig)
    assert str(path) in str(caught.value)


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.yaml: config cannot be read \(No such file or directory\)"):
        load_config(tmp_path / "absent.yaml", TrialConfig)
    with pytest.raises(UserError, match="cannot be read"):
        load_config(tmp_path, TrialConfig)


def test_named_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout, wheel = tmp_path / "configs", tmp_path / "stats" / "configs"
    for folder in (checkout, wheel):
        folder.mkdir(parents=True)
        (folder / "quick.yaml").write_text(f"seed: {len(folder.parts)}\n")
    (wheel / "full.yaml").write_text("processes: 16\n")
    monkeypatch.setattr(config_module, "_FOLDERS", (checkout, wheel))
    assert config_names() == ["full", "quick"]
    assert find_config("quick") == checkout / "quick.yaml"
    assert load_config("full", TrialConfig).processes == 16
    with pytest.raises(UserError, match=r"'fast': no such name; there are: full, quick; or give a path"):
        load_config("fast", TrialConfig)


def test_every_named_config_of_the_checkout_is_yaml_with_trial_keys() -> None:
    for name in config_names():
        assert isinstance(yaml.safe_load(find_config(name).read_text()), dict)


@pytest.mark.parametrize("name", config_names())
def test_the_named_configs_read_as_any_yaml_reader_reads_them(name: str) -> None:
    path = find_config(name)
    assert parse_yaml(path, path.read_bytes())[1] == yaml.safe_load(path.read_text())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("010", 10), ("0o10", 8), ("0x1F", 31), ("-3", -3), ("+3", 3)],
        *[("1e-3", 0.001), ("1.", 1.0), (".5", 0.5), ("-1.5E+2", -150.0), ("-.inf", -math.inf)],
        *[("true", True), ("FALSE", False), ("null", None), ("~", None), ("", None)],
        *[(text, text) for text in ("1:30", "1_000", "0b1", "on", "off", "yes", "No", "y", "2024-01-01", "=", "tRue")],
    ],
)
def test_scalars_are_those_of_yaml_1_2(tmp_path: Path, text: str, value: object) -> None:
    plain = parse_yaml(tmp_path / "a.yaml", f"key: {text}\n".encode())[1]["key"]
    assert (plain, type(plain)) == (value, type(value))


def test_spec_of_a_config_carries_everything(tmp_path: Path) -> None:
    text = "processes: 3\nblocks: 4\nwarmup_blocks: 1\nseed: 9\nmargin_percent: 0.25\nclocks: lock\nsm_mhz: 1500\n"
    text += "memory_mhz: 3201\ncomparisons: [[A, B]]\nl2_mode: flushed\ncell_timeout_s: 7\nrate: 2.5\n"
    config = load_config(write(tmp_path, text), Experiment)
    spec = config.trial_spec("micro-bench", "A", twin="A.twin")
    for name in set(TrialConfig.model_fields) - {"comparisons", "exclusion"}:
        assert getattr(spec, name) == getattr(config, name), name
    assert spec.comparisons == [("A", "B")]
    assert spec.config == json.loads(config.model_dump_json())
    assert spec.config["rate"] == 2.5


def assert_read_or_refused_in_one_line(path: Path) -> None:
    try:
        load_config(path, Experiment)
        return
    except UserError as error:
        message = str(error)
    assert message.startswith(str(path))
    assert len(message.splitlines()) == 1


@given(st.text(alphabet=st.sampled_from("abk:-[]{}&*!|>'\"#,?%@ \n\t01.~\\"), max_size=60) | st.text(max_size=40))
@settings(max_examples=120, deadline=None)
def test_any_text_is_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert_read_or_refused_in_one_line(path)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_KEYS = st.sampled_from([*Experiment.model_fields, "variant", "other"])
_TREES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(_KEYS, _TREES, max_size=5))
@settings(max_examples=100, deadline=None)
def test_any_tree_is_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, tree: object) -> None:
    path = tmp_path_factory.getbasetemp() / "tree.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    assert_read_or_refused_in_one_line(path)
