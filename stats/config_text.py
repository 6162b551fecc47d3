"""How a config is read so that every complaint about it can name file, line and key.

YAML is parsed to nodes, which know their lines, before it becomes plain values; pydantic's errors are then located in
the nodes. The traps: YAML takes repeated keys silently, lets an alias make a small file huge, reads ``1e-3`` as text.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from stats.errors import UserError

__all__ = ["explain", "parse_yaml"]


class _Loader(yaml.SafeLoader):
    """SafeLoader without dates, with floats such as 1e-3."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse_yaml(path: Path, data: bytes) -> tuple[yaml.Node | None, Any]:
    """The YAML node, which knows its lines (None for an empty file), and the plain value.

    Raises UserError with the line for what is no YAML, no mapping at the top, a repeated key or an alias.
    """
    try:
        text = data.decode("utf-8")
        for event in yaml.parse(text, Loader=_Loader):
            # An alias can make a small file huge, or endless.
            if isinstance(event, yaml.AliasEvent):
                raise UserError(f"{path}:{_line(event)}: aliases (*{event.anchor}) are not supported")
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            return None, {}
        if not isinstance(node, yaml.MappingNode):
            raise UserError(f"{path}:{_line(node)}: not a mapping; a config is made of `key: value` lines")
        _refuse_odd_keys(path, node)
        loader = _Loader("")
        plain = loader.construct_document(node)
        json.dumps(plain)
        return node, plain
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; is this a config?") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise UserError(f"{path}{line}: not YAML: {' '.join(str(error.problem or error.context).split())}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise UserError(f"{path}: a value that no config holds ({' '.join(str(error).split())})") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None


def _error(text: str) -> UserError:
    """A key can hold ends of lines; the message must not."""
    return UserError(" ".join(text.split()))


def _line(node: yaml.Node | yaml.Event) -> int:
    return node.start_mark.line + 1 if node.start_mark is not None else 1


def _refuse_odd_keys(path: Path, node: yaml.Node) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_odd_keys(path, item)
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise _error(f"{path}:{_line(key)}: key {shown!r} is not text; put it in quotes")
        if key.value in lines:
            raise _error(f"{path}:{_line(key)}: {key.value}: given already in line {lines[key.value]}")
        lines[key.value] = _line(key)
        _refuse_odd_keys(path, value)


# From pydantic's errors to one line


def explain(path: Path, node: yaml.Node | None, model: type[BaseModel], error: ValidationError) -> str:
    """One line for the first of pydantic's errors: ``file:line: key: what is wrong``, with allowed values or keys."""
    problems = []
    for item in error.errors():
        line, key = _locate(node, item["loc"])
        problems.append((line, f"{path}:{line}: {key + ': ' if key else ''}{_reason(item, model)}"))
    problems.sort(key=lambda problem: problem[0])
    more = len({line for line, _ in problems}) - 1
    return " ".join(problems[0][1].split()) + (f" (and {more} more)" if more else "")


def _locate(node: yaml.Node | None, loc: tuple[int | str, ...]) -> tuple[int, str]:
    """Line and key path of a pydantic location; its parts that stand for a type and not for a key are passed over."""
    line, key = (_line(node), "") if node is not None else (1, "")
    for index, part in enumerate(loc):
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                if name.value == part:
                    child, line = value, _line(name)
            if child is None and index == len(loc) - 1:
                return line, f"{key}.{part}" if key else str(part)
            key = (f"{key}.{part}" if key else str(part)) if child is not None else key
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part < len(node.value):
                child = node.value[part]
                line = _line(child)
            key = f"{key}[{part}]"
        node = child if child is not None else node
    return line, key


def _reason(item: Any, model: type[BaseModel]) -> str:
    kind, given = item["type"], item.get("input")
    if kind == "extra_forbidden":
        allowed = sorted(_keys_at(model, item["loc"][:-1]))
        near = difflib.get_close_matches(str(item["loc"][-1]), allowed, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"unknown key; {hint}allowed: {', '.join(allowed)}"
    if kind == "missing":
        return "missing; it has no default"
    message = " ".join(str(item["msg"]).removeprefix("Value error, ").split())
    if kind in ("literal_error", "enum"):
        return f"{given!r} is not one of {item['ctx']['expected']}"
    if kind == "value_error":
        return message
    return f"{message[0].lower()}{message[1:]}, not {_shown(given)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def _keys_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> Iterator[str]:
    """Keys that a model allows at a location, over all models that may stand there."""
    models = [model]
    for part in loc:
        annotations = [one.model_fields[part].annotation for one in models if part in one.model_fields]
        # A part that is no field is an index, a key of a dict or the name of a type: the models stay.
        models = [found for annotation in annotations for found in _models_in(annotation)] or models
    for one in models:
        for name, info in one.model_fields.items():
            yield info.alias or name


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
