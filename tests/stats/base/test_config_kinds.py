"""A config that belongs to another command is told whose it is: every named config to every kind."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from stats.base.config import CONFIG_KINDS, ConfigModel, config_names, find_config, load_config
from stats.base.errors import UserError

# By the first words of the name; the rest are of the GEMM.
OF = {"micro": "micro-bench", "stream": "gemm-bench explain stream", "instructions": "micro-bench instructions"}
OF |= {"contention": "micro-bench contention"}
COUNTERS = ["micro-bench counters", "gemm-bench counters"]  # one kind, read by both


def model_of(command: str) -> Any:
    module, _, name = CONFIG_KINDS[command].partition(":")
    return getattr(importlib.import_module(module), name)


def test_every_kind_that_a_command_reads_is_listed() -> None:
    root = Path(__file__).resolve().parents[3]
    used = {
        part.partition(")")[0].split(",")[1].strip()
        for package in ("micro", "gemm")
        for file in (root / package).rglob("*.py")
        for part in file.read_text(encoding="utf-8").split("load_config(")[1:]
    }
    assert used == {kind.partition(":")[2] for kind in CONFIG_KINDS.values()}


@pytest.mark.parametrize("command", CONFIG_KINDS)
def test_each_named_config_has_one_owner_and_the_others_name_it(command: str) -> None:
    for name in config_names():
        owners = COUNTERS if name == "counters" else [OF.get(name.partition("-record")[0], "gemm-bench")]
        if command in owners:
            load_config(name, model_of(command))
            continue
        with pytest.raises(UserError) as told:
            load_config(name, model_of(command))
        use = f"; use {owners[0]} --config {name}" if len(owners) == 1 else ""
        asked = " or ".join(COUNTERS if command in COUNTERS else [command])
        said = f"is a config of {' or '.join(owners)}, not of {asked}{use}"
        assert str(told.value) == f"{find_config(name)}: {said}"


def test_a_slip_in_a_config_of_the_right_kind_is_still_a_slip(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("variants: [A1]\ndo_mma: '0'\nloop: 5\n", encoding="utf-8")
    with pytest.raises(UserError, match=r":3: loop: unknown key; did you mean loops\?"):
        load_config(path, model_of("micro-bench"))
    path.write_text("shapes: [128x128x32]\nstage: [3]\nepilogues: [staged]\n", encoding="utf-8")
    with pytest.raises(UserError, match="is a config of gemm-bench, not of micro-bench; use gemm-bench --config /"):
        load_config(path, model_of("micro-bench"))
    with pytest.raises(UserError, match=":2: stage: unknown key; did you mean stages"):
        load_config(path, model_of("gemm-bench"))


def test_keys_of_several_kinds_name_them_all_and_a_stated_owner_decides(tmp_path: Path) -> None:
    class Mine(ConfigModel):
        size: int = 1

    path = tmp_path / "mine.yaml"
    path.write_text("target_cycles: 400000\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"of micro-bench instructions or micro-bench contention, not of gemm-bench$"):
        load_config(path, model_of("gemm-bench"))
    with pytest.raises(UserError, match=":1: target_cycles: unknown key; allowed: size"):
        load_config(path, Mine)
    path.write_text("tool: micro-bench instructions\ntarget_cycles: 400000\n", encoding="utf-8")
    assert load_config(path, model_of("micro-bench instructions")).target_cycles == 400_000
    with pytest.raises(UserError, match="is a config of micro-bench instructions, not of micro-bench contention"):
        load_config(path, model_of("micro-bench contention"))
    path.write_text("tool: [gemm-bench]\n", encoding="utf-8")
    with pytest.raises(UserError, match="yaml: tool: choose from micro-bench, "):
        load_config(path, model_of("gemm-bench"))
