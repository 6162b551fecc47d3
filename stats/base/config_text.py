"""How a config is read so that every complaint about it can name file, line and key.

YAML is parsed to nodes, which know their lines, before it becomes plain values; pydantic's errors are then located in
the nodes. The traps: YAML takes repeated keys silently and lets an alias make a small file huge; its version 1.1, which
PyYAML speaks, reads ``010`` as 8, ``1:30`` as 90 and ``on`` as true. Here scalars are read as YAML 1.2 reads them.
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

from stats.base.errors import UserError
from stats.base.plain_words import fault, quoted

_DEEPEST = 32  # no config needs four; PyYAML's time grows with the square of the depth
_MOST_DIGITS = 100
_TAG = "tag:yaml.org,2002:"
_CORE = {  # YAML 1.2, 10.3.2: the core schema
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """``010`` is ten; ``0o10`` is eight."""
        text = self.construct_scalar(node)
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern in _CORE.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"(?:{_pattern})\\Z"), None)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)


def parse_yaml(path: Path, data: bytes) -> tuple[yaml.Node | None, Any]:
    """The YAML node, which knows its lines (None for an empty file), and the plain value.

    Raises UserError with the line for what is no YAML, no mapping at the top, a repeated key, an alias, a nesting or an
    integer that no config needs.
    """
    depth = 0
    try:
        text = data.decode("utf-8-sig")
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise UserError(f"{path}:{_line(event)}: nested too deeply; a config has at most {_DEEPEST} levels")
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
    except (ValueError, TypeError, OverflowError):  # an explicit !!tag that its text does not fit, or !!binary, !!set
        raise UserError(f"{path}: a value that no config holds; write it without a tag (!!)") from None


def _error(text: str) -> UserError:
    """A key can hold ends of lines; the message must not."""
    return UserError(" ".join(text.split()))


def _line(node: yaml.Node | yaml.Event) -> int:
    return node.start_mark.line + 1 if node.start_mark is not None else 1


def _refuse_odd_keys(path: Path, node: yaml.Node) -> None:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_odd_keys(path, item)
    if node.tag == f"{_TAG}int" and len(node.value) > _MOST_DIGITS:
        raise UserError(f"{path}:{_line(node)}: an integer of {len(node.value)} digits, which no key takes")
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise _error(f"{path}:{_line(key)}: key {quoted(shown)} is not text; put it in quotes")
        if key.value in lines:
            raise _error(f"{path}:{_line(key)}: {quoted(key.value, str)}: given already in line {lines[key.value]}")
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
    if item["type"] == "extra_forbidden":
        allowed = sorted(_keys_at(model, item["loc"][:-1]))
        near = difflib.get_close_matches(str(item["loc"][-1]), allowed, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"unknown key; {hint}allowed: {', '.join(allowed)}"
    return fault(item)


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
