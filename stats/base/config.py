"""From YAML to a checked model, with an error that names file, line and key when it does not fit.

Strict: no unknown or repeated key, no text where a number belongs. A name without a suffix is looked up in ``configs/``
of the checkout or, in an installed copy, in ``stats/configs``. The trap: a default that nobody stated is still part of
the experiment, so the whole model, defaults included, goes into the record's header.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from stats.base.config_text import explain, parse_yaml
from stats.base.errors import UserError
from stats.base.plain_words import fault

_HERE = Path(__file__).resolve().parents[1]
_FOLDERS = (_HERE.parent / "configs", _HERE / "configs")
_LARGEST_BYTES = 1 << 20


class ConfigModel(BaseModel):
    """Base of every config: unknown keys refused, types strict, values fixed once read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


_Model = TypeVar("_Model", bound=BaseModel)


def config_names() -> list[str]:
    """Names of the configs that come with the suite."""
    return sorted({path.stem for folder in _FOLDERS for path in folder.glob("*.yaml")})


def find_config(path_or_name: str | Path) -> Path:
    """The file meant: a path as it is, a bare name looked up among the named configs. Raises UserError if none is."""
    text = str(path_or_name)
    if isinstance(path_or_name, Path) or "/" in text or text.endswith((".yaml", ".yml")):
        return Path(text)
    for folder in _FOLDERS:
        if (folder / f"{text}.yaml").is_file():
            return folder / f"{text}.yaml"
    names = ", ".join(config_names()) or "none"
    raise UserError(f"config {text!r}: no such name; there are: {names}; or give a path that ends in .yaml")


def load_config(path_or_name: str | Path, model: type[_Model]) -> _Model:
    """Read a config as ``model``. Raises UserError ``file:line: key: what is wrong`` for anything that does not fit."""
    path = find_config(path_or_name)
    try:
        with path.open("rb") as file:  # /dev/zero has no end
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: config cannot be read ({error.strerror})") from None
    except ValueError:
        raise UserError(f"{path}: config cannot be read (no such name can be)") from None
    if len(data) > _LARGEST_BYTES:
        raise UserError(f"{path}: a config has at most {_LARGEST_BYTES} bytes")
    if not data:
        raise UserError(f"{path}: empty; a config is made of `key: value` lines")
    node, plain = parse_yaml(path, data)
    named = plain.pop("tool", None)
    if named is not None and named not in list(CONFIG_KINDS):
        raise UserError(f"{path}: tool: choose from {', '.join(CONFIG_KINDS)}")
    others = [named] if named is not None and CONFIG_KINDS[named] != _kind_of(model) else []
    try:
        if not others:
            return model.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        others = _kinds_that_fit(plain, model)
        if not others:
            raise UserError(explain(path, node, model, error)) from None
    use = f"; use {others[0]} --config {path_or_name}" if len(others) == 1 else ""
    raise UserError(f"{path}: is a config of {' or '.join(map(str, others))}, not of {_command_of(model)}{use}")


# Which command takes which kind of config. A config that several would take says whose it is with `tool: COMMAND`.
# Models are named and not imported: they belong to the packages above, and are asked only when a config does not fit.
CONFIG_KINDS = {
    "micro-bench": "micro.bench.read_path.config:MicroConfig",
    "micro-bench instructions": "micro.bench.instructions.design:InstructionsConfig",
    "micro-bench contention": "micro.bench.contention.design:ContentionConfig",
    "micro-bench counters": "micro.counters.config:CountersConfig",
    "gemm-bench counters": "micro.counters.config:CountersConfig",
    "gemm-bench": "gemm.ladder.config:GemmConfig",
    "gemm-bench explain stream": "gemm.explain.stream:StreamConfig",
}


def _kind_of(model: type[BaseModel]) -> str:
    return f"{model.__module__}:{model.__name__}"


def _command_of(model: type[BaseModel]) -> str:
    commands = [command for command, kind in CONFIG_KINDS.items() if kind == _kind_of(model)]
    return " or ".join(commands) or model.__name__


def _kinds_that_fit(plain: Mapping[str, Any], model: type[BaseModel]) -> list[str]:
    """The commands whose configs have more of these keys than ``model`` has."""
    known: dict[str, int] = {}
    for command, kind in CONFIG_KINDS.items():
        module, _, name = kind.partition(":")
        known[command] = len(set(plain) & set(getattr(importlib.import_module(module), name).model_fields))
    most = max(known.values())
    own = [known[command] for command, kind in CONFIG_KINDS.items() if kind == _kind_of(model)]
    fits = not own or own[0] == most  # a model of no command is somebody's own
    return [] if fits else [command for command, count in known.items() if count == most]


def with_overrides(config: _Model, overrides: Mapping[str, Any]) -> _Model:
    """``config`` with the fields that options on the command line set. Raises UserError naming the option."""
    try:
        return type(config).model_validate({**config.model_dump(), **overrides})
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        raise UserError(option_error("--" + field.replace("_", "-"), type(config), error)) from None


def option_error(option: str, model: type[BaseModel], error: ValidationError) -> str:
    """One line for the first of pydantic's errors: the option, what it was given, and the range that is allowed."""
    first = error.errors()[0]
    given, message = first["input"], str(first["msg"]).removeprefix("Value error, ")
    if message.startswith(f"{option[2:]} "):  # it says which of several
        return f"--{message}"
    what = f"{option} {','.join(map(str, given)) if isinstance(given, list) else repr(given)}"
    if first["type"] in ("greater_than_equal", "less_than_equal"):
        bounds = {type(one).__name__: one for one in model.model_fields[str(first["loc"][0])].metadata}
        if "Ge" in bounds and "Le" in bounds:
            return f"{what}: choose from {bounds['Ge'].ge} to {bounds['Le'].le}"
    if first["type"] == "literal_error":
        return f"{what}: choose from {first['ctx']['expected']}"
    if first["type"] != "value_error":
        return f"{option}: {fault(first)}"
    return f"{what}: {message.removeprefix(f'{given} ')}"


def results_folders() -> list[Path]:
    """Where recorded runs are looked for: ``results/`` here, then that of the checkout."""
    return [folder for folder in (Path("results"), _HERE.parent / "results") if folder.is_dir()]
