"""Reference pages in Markdown (MyST), made from declarations: `reference(protocol)`.

`python -m wirelake.wire.views.markdown docs/reference` writes the pages of the built-in protocols
and of the error codes; with `--check` it only tells which are out of date. Fields marked secret are
marked here too. Where a layout differs between dialects, each has its own table.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .. import model as m
from ..errors import CODES
from ..walk import dynamics
from ._markdown_layout import Page, layout_lines
from ._markdown_words import (
    anchor,
    code,
    hexadecimal,
    kind_words,
    prose,
    table,
)

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = ["errors_page", "reference", "stale", "write_reference"]

_WAYS: tuple[tuple[m.Direction, str], ...] = (
    ("c2s", "Client to server"),
    ("s2c", "Server to client"),
)


def reference(protocol: Protocol) -> str:
    """The page of a protocol."""
    models = {name: protocol.layouts(name) for name in protocol.dialects}
    page = Page(protocol.name, models)
    lines = [f"# {prose(protocol.title)}", "", _byte_order(page), ""]
    lines += [prose(protocol.doc.strip()), ""] if protocol.doc else []
    lines += _facts(protocol)
    for section in (_commands, _rows, _layouts, _values, _numbers, _limits):
        lines += section(page)
    return "\n".join(lines).rstrip() + "\n"


def errors_page() -> str:
    """The page of all error codes."""
    lines = [
        "# Error codes",
        "",
        "Everything that can be wrong with bytes, or with a value to encode, has one of these",
        "codes. They are stable: tools, tables and peers may rely on them. An error also carries",
        "the dotted name of the field and the offset of the byte where it shows.",
        "",
    ]
    rows = ([code(name), prose(meaning)] for name, meaning in CODES.items())
    lines += table(["code", "meaning"], rows)
    return "\n".join(lines).rstrip() + "\n"


# -- sections of a page ----------------------------------------------------------------------


def _byte_order(page: Page) -> str:
    orders = set(page.orders())
    if orders == {"little"}:
        return "Byte order: fixed-size numbers are **little-endian**, not in network order."
    if orders == {"big"}:
        return "Byte order: fixed-size numbers are big-endian (network order)."
    if not orders:
        return "Byte order: no number takes more than one byte, or all are varints."
    return "Byte order: **mixed**; the type of each field says which."


def _facts(protocol: Protocol) -> list[str]:
    dialects = ", ".join(code(name) for name in protocol.dialects)
    first = " (the first is the default)" if len(protocol.dialects) > 1 else ""
    rows = [["name", code(protocol.name)], ["dialects", f"{dialects}{first}"]]
    if protocol.port is not None:
        rows.append(["default port", str(protocol.port)])
    if protocol.directed:
        rows.append(["directions", "a reader must know who speaks"])
    return list(table(["", ""], rows))


def _commands(page: Page) -> Iterator[str]:
    body = page.frame.body
    if body is None:
        return
    yield "## Commands"
    yield ""
    ways = _WAYS if body.directed else ((None, ""),)
    for direction, title in ways:
        if title:
            yield from (f"### {title}", "")
        found = body.of(direction)
        consts = any(alternative.const is not None for alternative in found)
        head = ["tag", "command", "meaning", *(["constant"] if consts else [])]
        yield from table(head, (_command(page, alternative, consts) for alternative in found))


def _command(page: Page, alternative: m.Alternative, consts: bool) -> list[str]:
    layout = alternative.layout
    cells = [
        f"{alternative.tag} ({hexadecimal(alternative.tag)})",
        page.link(layout.name),
        prose(_first_line(layout.doc)),
    ]
    if consts:
        cells.append("" if alternative.const is None else hexadecimal(alternative.const))
    return cells


def _rows(page: Page) -> Iterator[str]:
    for field, kind in page.rows():
        yield from ("## Rows", "")
        yield f"{code(field.name)} ends with a row of type {hexadecimal(kind.end)} and size 0."
        yield "A row of a type that is not in this table is carried as it is; one whose content"
        yield "breaks a rule is kept as bytes, with the error."
        yield ""
        found = (
            [hexadecimal(a.tag), page.link(a.layout.name), prose(_first_line(a.layout.doc))]
            for a in kind.alternatives
        )
        yield from table(["type", "row", "meaning"], found)


def _layouts(page: Page) -> Iterator[str]:
    yield from ("## Layouts", "")
    for variants in page.layouts():
        yield from layout_lines(page, variants)


def _values(page: Page) -> Iterator[str]:
    found = {name: dynamics(layouts) for name, layouts in page.models.items()}
    for index, first in enumerate(next(iter(found.values()))):
        yield from (f"({anchor(page.name, first.name)})=", f"## Value {code(first.name)}", "")
        yield f"A type ({first.tag.size} byte), then what the type says; it may contain itself."
        yield ""
        words = {name: [kind_words(k) for k in each[index].kinds] for name, each in found.items()}
        default, *others = words
        head = ["type", "name", "content", *(f"content in {code(other)}" for other in others)]
        differs = any(words[other] != words[default] for other in others)
        rows = []
        for place, kind in enumerate(first.kinds):
            cells = [str(kind.tag), code(kind.name), words[default][place]]
            if differs:
                same = (words[other][place] == words[default][place] for other in others)
                cells += ["" if s else words[o][place] for s, o in zip(same, others, strict=True)]
            rows.append(cells)
        yield from table(head if differs else head[:3], rows)


def _numbers(page: Page) -> Iterator[str]:
    enums = page.enums()
    if enums:
        yield from ("## Numbers with names", "")
    for enum in enums:
        yield from (f"({page.numbers_anchor(enum)})=", f"### {enum.__name__}", "")
        yield from (prose((enum.__doc__ or "").strip()), "")
        rows = ([f"{int(member)}", code(member.name)] for member in enum)
        yield from table(["number", "name"], rows)


def _limits(page: Page) -> Iterator[str]:
    rows = list(page.limits())
    if rows:
        yield from ("## Limits", "")
        yield "What a reader accepts unless it is told otherwise, and what the format demands."
        yield ""
        yield from table(["where", "limit"], rows)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


# -- files -----------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Every page of the built-in protocols, and of the errors: file name -> text."""
    # By name: this room must not know the protocols, which are above it.
    registry = importlib.import_module("wirelake.protocols.registry")
    found = {f"{name}.md": reference(registry.find(name)) for name in sorted(registry.BUILT_IN)}
    return found | {"errors.md": errors_page()}


def stale(folder: Path | str) -> list[str]:
    """The pages in a folder that are missing or do not say what the declarations say."""
    return [
        name
        for name, text in pages().items()
        if not (path := Path(folder) / name).exists() or path.read_text(encoding="utf-8") != text
    ]


def write_reference(folder: Path | str) -> list[str]:
    """Writes what is stale into a folder and returns its names."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    wanted, names = pages(), stale(folder)
    for name in names:
        (Path(folder) / name).write_text(wanted[name], encoding="utf-8")
    return names


def main(arguments: list[str] | None = None) -> int:
    """Writes the reference pages, or with --check only names those that are out of date."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.wire.views.markdown", description=main.__doc__
    )
    parser.add_argument("folder", type=Path, help="where the pages are, such as docs/reference")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    options = parser.parse_args(arguments)
    names = stale(options.folder) if options.check else write_reference(options.folder)
    for name in names:
        print(("stale: " if options.check else "wrote ") + name)
    return 1 if options.check and names else 0


if __name__ == "__main__":
    sys.exit(main())
