"""`wirelake protocols` and `conform`: what follows from the declarations of protocols.

`protocols` lists them, shows layouts, and writes reference pages and Kaitai files; `conform` runs
files of test vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..errors import unknown_name
from ..main import COMMANDS
from ..options import CONTEXT, Group, check_dialect, find_protocol
from ..output.text import json_line, print_notice, write_files

if TYPE_CHECKING:
    from wirelake.wire.model import Layout
    from wirelake.wire.protocol import Protocol

__all__ = ["command", "conform"]

_HELP = f"""{COMMANDS["protocols"]}

\b
Examples:
  wirelake protocols
  wirelake protocols show comet.auth
  wirelake protocols reference magline > magline.md
  wirelake protocols ksy -o kaitai
"""


@click.group(
    name="protocols",
    help=_HELP,
    cls=Group,
    context_settings=CONTEXT,
    invoke_without_command=True,
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List protocols, unless there is a subcommand."""
    if ctx.invoked_subcommand is not None:
        return
    for protocol in _chosen(()):
        if as_json:
            click.echo(json_line(_protocol_json(protocol)))
        else:
            dialects = ", ".join(protocol.dialects)
            click.echo(f"{protocol.name:<10}{protocol.title}  ({dialects})")


def _protocol_json(protocol: Protocol) -> dict[str, Any]:
    return {
        "name": protocol.name,
        "title": protocol.title,
        "dialects": list(protocol.dialects),
        "port": protocol.port,
        "directed": protocol.directed,
        "layouts": [layout.name for layout in protocol.layouts()],
    }


def _chosen(names: tuple[str, ...]) -> list[Protocol]:
    """Return the named protocols, or all of them; report those that do not load."""
    if names:
        return [find_protocol(name) for name in dict.fromkeys(names)]
    from wirelake.protocols.registry import load_all

    loaded, broken = load_all()
    for error in broken:
        print_notice(str(error))
    return loaded


# -- show ------------------------------------------------------------------------------------

_SHOW_HELP = """Show a protocol or one of its layouts: fields, offsets, sizes, descriptions.

NAME is PROTOCOL or PROTOCOL.LAYOUT.

\b
Examples:
  wirelake protocols show comet
  wirelake protocols show comet.auth
  wirelake protocols show tny.message --dialect upstream --json
"""


@command.command(name="show", help=_SHOW_HELP, context_settings=CONTEXT)
@click.argument("name")
@click.option("--dialect", metavar="NAME", help="Dialect of the protocol.  [default: the first]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(name: str, dialect: str | None, as_json: bool) -> None:
    """Print a protocol or a layout."""
    first, _, second = name.partition(".")
    protocol = find_protocol(first)
    chosen = check_dialect(protocol, dialect)
    layouts = {layout.name: layout for layout in protocol.layouts(chosen)}
    if second and second not in layouts:
        raise unknown_name("layout", second, layouts, of=protocol.name)
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
        keys = getattr(protocol.opener, "keys_text", "")
        if keys:
            click.echo(f"Keys of wirelake decode --keys: {keys}")


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
            {"tag": tag, "direction": direction or None, "layout": other.name}
            for tag, direction, other in alternatives(layout)
        ],
    }


def _layout_lines(protocol: Protocol, layout: Layout) -> Iterator[str]:
    from wirelake.wire.views.describe import alternatives, fields

    title = click.style(f"{protocol.name}.{layout.name}", bold=True)
    dialect = f"  dialect {layout.dialect}" if len(protocol.dialects) > 1 else ""
    yield f"{title}{dialect}{f'  {layout.section}' if layout.section else ''}"
    if layout.doc:
        yield layout.doc
    described = list(fields(layout))
    if not described:
        yield "\nNo fields."
    else:
        yield ""
        yield from _table(described)
    others = alternatives(layout)
    if others:
        yield ""
        for tag, direction, other in others:
            summary = other.doc.partition("\n")[0]
            yield f"  {tag:#06x}  {direction:<4} {other.name:<20} {summary}"


def _table(described: list[Any]) -> Iterator[str]:
    widths = [
        max(len(getattr(f, column)) for f in described) for column in ("offset", "size", "name")
    ]
    offset, size, name = (max(w, n) for w, n in zip(widths, (6, 4, 5), strict=True))
    yield f"{'offset':>{offset}}  {'size':<{size}}  {'field':<{name}}  type"
    for field in described:
        styled = click.style(f"{field.name:<{name}}", fg="cyan")
        secret = click.style("  secret", fg="yellow") if field.secret else ""
        yield f"{field.offset:>{offset}}  {field.size:<{size}}  {styled}  {field.type}{secret}"
        indent = " " * (offset + size + name + 8)
        if field.doc:
            yield f"{indent}{field.doc}"
        for note in field.notes:
            yield f"{indent}{click.style(note, dim=True)}"


# -- files -----------------------------------------------------------------------------------

_REFERENCE_HELP = """Write reference pages in Markdown, to standard output or into a folder.

Without PROTOCOL, writes all protocols and, into a folder, the page of error codes.

\b
Examples:
  wirelake protocols reference comet
  wirelake protocols reference -o docs/reference
"""


@command.command(name="reference", help=_REFERENCE_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    help="Output folder, one file per protocol.  [default: standard output]",
)
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


_KSY_HELP = """Write Kaitai Struct files (.ksy).

A protocol whose directions differ has one file for each. Without PROTOCOL, writes all protocols.

\b
Examples:
  wirelake protocols ksy -o kaitai
  wirelake protocols ksy tny --dialect upstream
"""


@command.command(name="ksy", help=_KSY_HELP, context_settings=CONTEXT)
@click.argument("protocols", nargs=-1, metavar="[PROTOCOL…]")
@click.option("--dialect", metavar="NAME", help="Dialect of the protocol.  [default: all]")
@click.option("-o", "--output", metavar="FOLDER", help="Output folder.  [default: standard output]")
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


# -- conform -----------------------------------------------------------------------------------

_CONFORM_HELP = f"""{COMMANDS["conform"]}

Prints one line per failure and a summary. Exits 1 if a vector fails, 2 if a file cannot be read.

\b
Examples:
  wirelake conform tests/vectors/*.jsonl
  wirelake conform comet.jsonl --json | jq .failures
"""


@click.command(name="conform", help=_CONFORM_HELP, context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
def conform(files: tuple[str, ...], as_json: bool) -> int:
    """Run the vectors and return the exit code."""
    from wirelake.conformance.runner import main

    return main(files, click.echo, as_json=as_json)
