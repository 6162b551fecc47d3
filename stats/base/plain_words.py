"""What is wrong with a value, in words of the person who wrote it: neither Python's names nor pydantic's sentences.

The trap: a value that is wrong may be endless, too, so no more of it is quoted than fits on the line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

_LONGEST = 60
_WANTED = {
    "int": "an integer",
    "float": "a number",
    "finite": "a finite number",
    "string": "text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}
_BOUNDS = {
    "greater_than": "is not above {gt}",
    "greater_than_equal": "is below {ge}",
    "less_than": "is not below {lt}",
    "less_than_equal": "is above {le}",
    "too_short": "holds fewer than {min_length}",
    "too_long": "holds more than {max_length}",
}


def quoted(value: Any, written: Callable[[Any], str] = repr) -> str:
    """A value as it stands in a message: its beginning, if it is long."""
    text = written(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "…"


def fault(item: Mapping[str, Any]) -> str:
    """One of pydantic's errors in plain words; what the value was is part of them."""
    kind, context = item["type"], item.get("ctx", {})
    if kind == "value_error":
        return " ".join(str(item["msg"]).removeprefix("Value error, ").split())
    if kind == "missing":
        return "missing; it has no default"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in ("literal_error", "enum"):
        return f"{quoted(item['input'])} is not one of {context['expected']}"
    given = quoted(item["input"], lambda value: json.dumps(value, ensure_ascii=False, default=str))
    if kind in _BOUNDS:
        return f"{given} {_BOUNDS[kind].format_map(context)}"
    wanted = _WANTED.get(kind.partition("_")[0])
    if wanted is not None:
        return f"{given} is not {wanted}"
    message = " ".join(str(item["msg"]).split())
    return f"{message[0].lower()}{message[1:]}, not {given}"
