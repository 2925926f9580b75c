"""`wirelake protocols`: what there is, what it looks like, and files made from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..main import COMMANDS
from ..output.common import (
    CONTEXT,
    check_dialect,
    find_protocol,
    json_line,
    write_files,
)

if TYPE_CHECKING:
    from wirelake.wire.model import Layout
    from wirelake.wire.protocol import Protocol

__all__ = ["command"]

_HELP = f"""{COMMANDS["protocols"]}

\b
Examples:
  wirelake protocols
  wirelake protocols show comet.auth
  wirelake protocols reference magline > magline.md
  wirelake protocols ksy -o kaitai
"""


@click.group(name="protocols", help=_HELP, context_settings=CONTEXT, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List protocols, unless a subcommand is named."""
    if ctx.invoked_subcommand is not None:
        return
    for protocol in _chosen(()):
        if as_json:
            click.echo(json_line(_facts(protocol)))
        else:
            dialects = ", ".join(protocol.dialects)
            click.echo(f"{protocol.name:<10}{protocol.title}  ({dialects})")


def _facts(protocol: Protocol) -> dict[str, Any]:
    return {
        "name": protocol.name,
        "title": protocol.title,
        "dialects": list(protocol.dialects),
        "port": protocol.port,
        "directed": protocol.directed,
        "layouts": [layout.name for layout in protocol.layouts()],
    }


def _chosen(names: tuple[str, ...]) -> list[Protocol]:
    """The named protocols, or all that load; says which do not."""
    if names:
        return [find_protocol(name) for name in dict.fromkeys(names)]
    from wirelake.protocols.registry import load_all

    found, broken = load_all()
    for error in broken:
        click.echo(f"wirelake: {error}", err=True)
    return found


# -- show ------------------------------------------------------------------------------------

_SHOW_HELP = """Show a protocol, or one of its layouts: fields, offsets, sizes, meanings.

NAME is a protocol, or a protocol, a dot and a layout.

\b
Examples:
  wirelake protocols show comet
  wirelake protocols show comet.auth
  wirelake protocols show tny.message --dialect upstream --json
"""


@command.command(name="show", help=_SHOW_HELP, context_settings=CONTEXT)
@click.argument("name")
@click.option("--dialect", metavar="NAME", help="Dialect; the first if not given.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def show(name: str, dialect: str | None, as_json: bool) -> None:
    """Print a protocol or a layout."""
    first, _, second = name.partition(".")
    protocol = find_protocol(first)
    chosen = check_dialect(protocol, dialect)
    layouts = {layout.name: layout for layout in protocol.layouts(chosen)}
    if second and second not in layouts:
        raise click.UsageError(
            f"{protocol.name} has no layout {second!r}; it has {', '.join(layouts)}"
        )
    layout = layouts[second] if second else protocol.model(chosen)
    if as_json:
        click.echo(json_line(_layout_json(protocol, layout)))
        return
    if not second:
        click.echo(f"{click.style(protocol.title, bold=True)}\n\n{protocol.doc.strip()}\n")
    for line in _layout_lines(protocol, layout):
        click.echo(line)
    if not second:
        others = [other for other in layouts if other != layout.name]
        click.echo(f"\nLayouts: {', '.join(others)}")
        click.echo(f"Show one with: wirelake protocols show {protocol.name}.{others[0]}")


def _layout_json(protocol: Protocol, layout: Layout) -> dict[str, Any]:
    from dataclasses import asdict

    from wirelake.wire.views.describe import alternatives, fields

    return {
        "protocol": protocol.name,
        "layout": layout.name,
        "dialect": layout.dialect,
        "doc": layout.doc,
        "section": layout.section,
        "fields": [asdict(field) for field in fields(layout)],
        "alternatives": [
            {"tag": tag, "direction": way or None, "layout": other.name}
            for tag, way, other in alternatives(layout)
        ],
    }


def _layout_lines(protocol: Protocol, layout: Layout) -> Iterator[str]:
    from wirelake.wire.views.describe import alternatives, fields

    title = click.style(f"{protocol.name}.{layout.name}", bold=True)
    dialect = f"  dialect {layout.dialect}" if len(protocol.dialects) > 1 else ""
    yield f"{title}{dialect}{f'  {layout.section}' if layout.section else ''}"
    if layout.doc:
        yield layout.doc
    found = list(fields(layout))
    if not found:
        yield "\nIt has no fields."
    else:
        yield ""
        yield from _table(found)
    others = alternatives(layout)
    if others:
        yield ""
        for tag, way, other in others:
            summary = other.doc.partition("\n")[0]
            yield f"  {tag:#06x}  {way:<4} {other.name:<20} {summary}"


def _table(found: list[Any]) -> Iterator[str]:
    widths = [max(len(getattr(f, column)) for f in found) for column in ("offset", "size", "name")]
    offset, size, name = (max(w, n) for w, n in zip(widths, (6, 4, 5), strict=True))
    yield f"{'offset':>{offset}}  {'size':<{size}}  {'field':<{name}}  type"
    for field in found:
        shown = click.style(f"{field.name:<{name}}", fg="cyan")
        secret = click.style("  secret", fg="yellow") if field.secret else ""
        yield f"{field.offset:>{offset}}  {field.size:<{size}}  {shown}  {field.type}{secret}"
        indent = " " * (offset + size + name + 8)
        if field.doc:
            yield f"{indent}{field.doc}"
        for note in field.notes:
            yield f"{indent}{click.style(note, dim=True)}"


# -- files -----------------------------------------------------------------------------------

_REFERENCE_HELP = """Reference pages in Markdown, to standard output or into a folder.

Without a PROTOCOL it is for all of them; in a folder there is a page of error codes too.

\b
Examples:
  wirelake protocols reference comet
  wirelake protocols reference -o docs/reference
"""


@command.command(name="reference", help=_REFERENCE_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option("-o", "--output", metavar="FOLDER", help="Write one file for each protocol here.")
def reference(protocols: tuple[str, ...], output: str | None) -> None:
    """Write reference pages."""
    from wirelake.wire.views.markdown import errors_page
    from wirelake.wire.views.markdown import reference as page

    pages = {f"{protocol.name}.md": page(protocol) for protocol in _chosen(protocols)}
    if output is None:
        click.echo("\n".join(pages.values()), nl=False)
        return
    if not protocols:
        pages["errors.md"] = errors_page()
    write_files(output, pages)


_KSY_HELP = """Kaitai Struct files (.ksy), made from the declarations.

A protocol whose directions differ has a file for each. Without a PROTOCOL it is for all of them.

\b
Examples:
  wirelake protocols ksy -o kaitai
  wirelake protocols ksy tny --dialect upstream
"""


@command.command(name="ksy", help=_KSY_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option("--dialect", metavar="NAME", help="Dialect; all of them if not given.")
@click.option("-o", "--output", metavar="FOLDER", help="Write the files here.")
def ksy(protocols: tuple[str, ...], dialect: str | None, output: str | None) -> None:
    """Write Kaitai files."""
    from wirelake.wire.views.ksy import kaitai

    files: dict[str, str] = {}
    for protocol in _chosen(protocols):
        names = protocol.dialects if dialect is None else (check_dialect(protocol, dialect),)
        for name in names:
            files |= kaitai(protocol, name)
    if output is None:
        click.echo("\n".join(files.values()), nl=False)
    else:
        write_files(output, files)
