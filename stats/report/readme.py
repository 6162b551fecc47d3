"""Make README.md and docs/ from their templates and records, or say where a page is not what they give.

``docs/pages/X.md`` becomes ``docs/X.md``, ``docs/pages/README.md`` becomes ``README.md``. All pages are made before
anything is written, and all files are written or none. The trap: a check that only says "differs" sends its reader to a
diff tool, so it says which line of which template and which field made what should stand there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stats.base.errors import BenchError, UserError, unreadable
from stats.base.files import write_all
from stats.record.provenance import PACKAGE_ROOT
from stats.report.blocks import Made, Picture
from stats.report.page_figures import Names, read_figures
from stats.report.template import Piece, evaluate, split_template
from stats.report.untraced import Untraced, untraced
from stats.report.values import Value

TEMPLATES = Path("docs/pages")
FIGURES = TEMPLATES / "figures.yaml"
DIFF_LINES = 24


@dataclass(frozen=True)
class Part:
    """A piece of a template, what it becomes, and, of a field, what stands behind it."""

    piece: Piece
    text: str
    made: Made | None = None

    @property
    def field(self) -> str:
        """How messages call it."""
        return f"{{{{ {self.piece.text} }}}}" if self.piece.kind == "field" else "the text"


@dataclass(frozen=True)
class Finding:
    """One place of a page: which line and field of the template it is, how the page differs, or its stale line."""

    where: str
    differs: str = ""
    stale: str | None = None


@dataclass(frozen=True)
class Page:
    """A page as its template and the records give it; ``path`` and ``template`` as messages name them."""

    folder: Path
    path: Path
    template: Path
    parts: Sequence[Part]

    @property
    def text(self) -> str:
        """The whole page."""
        return "".join(part.text for part in self.parts)

    @property
    def fields(self) -> list[Part]:
        """The parts that are figures, tables or pictures."""
        return [part for part in self.parts if part.piece.kind == "field"]

    @property
    def pictures(self) -> list[Picture]:
        """The picture files that the page shows."""
        return [part.made.picture for part in self.parts if part.made is not None and part.made.picture is not None]

    @property
    def untraced(self) -> list[Untraced]:
        """Figures with a unit that stand in the template outside its fields."""
        return untraced([part.piece for part in self.parts[1:]])

    def findings(self) -> list[Finding]:
        """What ``--check`` says: where the page differs, pictures that do, and every stale field."""
        found = self._differences()
        for part in self.fields:
            assert part.made is not None
            where = f"{self._at(part.piece.line)}: {part.field}"
            if part.made.picture is not None and (detail := picture_detail(part.made.picture, self.folder)):
                found.append(Finding(where, detail))
            if part.made.freshness.state == "stale":
                found.append(Finding(where, stale=part.made.freshness.line))
        return found

    def _at(self, line: int) -> str:
        return f"{self.template}:{line}"

    def _differences(self) -> list[Finding]:
        try:
            now = (self.folder / self.path).read_bytes().decode("utf-8")
        except FileNotFoundError:
            return [Finding(str(self.template), f"{self.path} is not there")]
        except OSError as error:
            raise unreadable(self.folder / self.path, error) from None
        except UnicodeDecodeError:
            return [Finding(str(self.template), f"{self.path} is not UTF-8 text")]
        if now == self.text:
            return []
        old, new = now.splitlines(), self.text.splitlines()
        owners = self._owners()
        told: dict[tuple[int, str], list[str]] = {}
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            lines = [f"{self.path}:{min(i1 + 1, len(old)) or 1}"]
            lines += [f"-{line}" for line in old[i1:i2]] + [f"+{line}" for line in new[j1:j2]]
            for owner in self._blamed(owners[j1 : max(j2, j1 + 1)] or owners[-1:], old[i1:i2]):
                told.setdefault(owner, []).extend(lines)
        if not told:
            return [Finding(str(self.template), f"{self.path}: only line ends differ")]
        return [Finding(f"{self._at(line)}: {what}", _shortened(lines)) for (line, what), lines in told.items()]

    def _owners(self) -> list[list[tuple[Part, int]]]:
        """For each line of the page the parts that stand on it, with the line of the template."""
        owners: list[list[tuple[Part, int]]] = [[]]
        for part in self.parts:
            for number, text in enumerate(part.text.split("\n")):
                if number:
                    owners.append([])
                if text or part.piece.kind == "text":
                    owners[-1].append((part, part.piece.line + (number if part.piece.kind == "text" else 0)))
        return owners

    @staticmethod
    def _blamed(owners: Sequence[Sequence[tuple[Part, int]]], old: Sequence[str]) -> list[tuple[int, str]]:
        """Whose output is not among the ``old`` lines: blocks, then values; the text where none of them is to blame."""
        there = [owner for line in owners for owner in line]
        fields = [(part, line) for part, line in there if part.piece.kind == "field"]
        blocks = [(part, line) for part, line in fields if part.made is not None and part.made.block]
        lost = [(part, line) for part, line in fields if part.text not in "\n".join(old)]
        chosen = blocks or lost or [(part, line) for part, line in there if part.piece.kind == "text"][:1] or there[:1]
        return list(dict.fromkeys((line, part.field) for part, line in chosen))


def _shortened(lines: list[str]) -> str:
    more = [f"… and {len(lines) - DIFF_LINES} lines more"] if len(lines) > DIFF_LINES else []
    return "\n".join(lines[:DIFF_LINES] + more)


def picture_detail(picture: Picture, folder: Path) -> str:
    """How the file of a picture differs from what it should show; nothing where it does not."""
    name = picture.path.relative_to(folder)
    try:
        content = picture.path.read_bytes()
    except OSError as error:
        return f"{name} cannot be read ({error.strerror})"
    return "" if picture.digest.encode() in content else f"{name} shows other figures"


def find_folder(start: Path) -> Path:
    """The folder that holds docs/pages: ``start`` or one above it. Raises UserError where none does."""
    for folder in (start, *start.absolute().parents):
        if (folder / FIGURES).is_file():
            return folder
    raise UserError(f"{start}: neither it nor a folder above it holds {FIGURES}; name the checkout")


def read_pages(folder: Path, *, root: Path = PACKAGE_ROOT) -> list[Page]:
    """Every page of ``folder`` made anew; nothing is written.

    Raises UserError, with line and field of the template, for whatever a field asks for that is not there.
    """
    templates = sorted((folder / TEMPLATES).glob("*.md"))
    if not templates:
        raise UserError(f"{folder / TEMPLATES}: holds no template; write one, README.md for the README")
    names = Names(folder, read_figures(folder / FIGURES), root)
    return [_page(folder, path.relative_to(folder), names) for path in templates]


def _page(folder: Path, template: Path, names: Names) -> Page:
    try:
        source = (folder / template).read_bytes().decode("utf-8")
    except OSError as error:
        raise unreadable(folder / template, error) from None
    except UnicodeDecodeError:
        raise UserError(f"{template}: not UTF-8 text; write it as Markdown") from None
    path = Path("README.md") if template.name == "README.md" else Path("docs") / template.name
    pieces = split_template(source, str(template))
    known = names.for_page(folder / path)
    parts = [Part(Piece("comment", 1, ""), f"<!-- made from {template.as_posix()} by make readme; edit that -->\n\n")]
    for number, piece in enumerate(pieces):
        if piece.kind != "field":
            parts.append(Part(piece, piece.text if piece.kind == "text" else ""))
            continue
        try:
            made = _made(evaluate(piece, known))
            if made.block and not _alone(pieces, number):
                raise UserError("stands inside a line; give it a line of its own")
        except BenchError as error:
            raise type(error)(f"{template}:{piece.line}: {{{{ {piece.text} }}}}: {error}") from None
        parts.append(Part(piece, made.content, made))
    return Page(folder, path, template, parts)


def _made(found: Any) -> Made:
    if isinstance(found, Value):
        return Made(found.text, found.freshness, block=False)
    if isinstance(found, Made):
        return found
    raise UserError("names no figure; write name[row].column, given.name, table('name') or figure('name')")


def _alone(pieces: Sequence[Piece], number: int) -> bool:
    before = pieces[number - 1].text if number and pieces[number - 1].kind == "text" else ("x" if number else "\n")
    after = pieces[number + 1].text if number + 1 < len(pieces) else "\n"
    return re.search(r"\n *\Z", before or "\n") is not None and re.match(r" *(\n|\Z)", after) is not None


def write_pages(pages: Sequence[Page]) -> list[Path]:
    """Write the pages and pictures that are not yet what they should be, all or none; the paths that changed."""
    if not pages:
        return []
    folder = pages[0].folder
    contents = {
        picture.path: picture.draw() for page in pages for picture in page.pictures if picture_detail(picture, folder)
    }
    contents |= {folder / page.path: page.text.encode("utf-8") for page in pages}
    return write_all(contents)
