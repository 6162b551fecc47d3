"""Text of a record, a config or a command line, as it may leave: it is data, and steers neither a terminal nor a page.

Every command writes through ``SafeStream``, put around stdout and stderr once, in ``run_app``: whatever prints next
year is covered, where a call in each of forty printing lines would one day be forgotten. A stream cannot tell the end
of a line in a name from that of a row, so the renderers of cells (``stats.base.tables``), files and figures call
``safe_text``, too. rich's own colours and cursor moves go to ``SafeStream.raw``, with every text made safe before.

What is no printable character becomes visible as Python writes it (``\\x1b``, ``\\u202e``); in JSON it is an escape
that reads back as it was. The trap: half a surrogate pair is a valid JSON string and cannot be encoded at all.
"""

from __future__ import annotations

import json
import re
from typing import Any, TextIO

# C0, DEL, C1; soft hyphen; marks and overrides of direction, of zero width, ends of lines and paragraphs; fillers that
# look like nothing; surrogates; what XML cannot hold; tags, which spell out text that nobody sees.
_CONTROLS = (
    r"\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff"
)
_IN_LINES, _IN_TEXT = re.compile(f"[{_CONTROLS}]"), re.compile(rf"[\n{_CONTROLS}]")
# What Markdown or HTML would take for markup. "<" alone is less than, "_" inside a word and "[" without a link are
# themselves: figures stay as they are typed.
_MARKUP = re.compile(r"[\\`*|$]|<(?=[A-Za-z/!?])|&(?=[#\w]+;)|(?<=\])[(\[:]|(?<![^\W_])_(?=\S)")
_FIGURE = re.compile(r"[-+][-+0-9.,%±…\[\] ]*")


def _visible(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def safe_text(text: str) -> str:
    """A text that stays on one line and is what it looks like: each control in it is visible."""
    return _IN_TEXT.sub(_visible, text)


def safe_lines(text: str) -> str:
    """``safe_text`` for an output of several lines, whose ends stay."""
    return _IN_LINES.sub(_visible, text)


def markdown_text(text: str) -> str:
    """``safe_text`` in which Markdown finds no code, emphasis, link, cell or HTML."""
    return _MARKUP.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", safe_text(text))


def figure_text(text: str) -> str:
    """``safe_lines`` in which matplotlib finds no formula: a name with two dollar signs is a name."""
    return safe_lines(text).replace("$", r"\$")


def csv_text(text: str) -> str:
    """``safe_text`` that no spreadsheet computes: what begins like a formula and is no figure gets an apostrophe.

    Programs that need the exact name read JSON.
    """
    text = safe_text(text)
    return f"'{text}" if text[:1] in tuple("=+-@") and not _FIGURE.fullmatch(text) else text


def dumped(value: Any, **options: Any) -> str:
    """Strict JSON in UTF-8, controls in it as escapes that read back as they were."""

    def escaped(found: re.Match[str]) -> str:
        code = found[0].encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{code[i : i + 4]}" for i in range(0, len(code), 4))

    return _IN_LINES.sub(escaped, json.dumps(value, allow_nan=False, ensure_ascii=False, **options))


class SafeStream:
    """A text stream through which only ``safe_lines`` gets; ``raw`` is the stream itself, as is everything else."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write ``text`` with its controls visible."""
        self.raw.write(safe_lines(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of ``lines``."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw_stream(stream: TextIO) -> TextIO:
    """The stream below a ``SafeStream``, for a writer whose own control sequences are meant."""
    return stream.raw if isinstance(stream, SafeStream) else stream
