"""What `wirelake decode` does: reads messages, opens sealed parts, shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from wirelake.wire.views.json import to_json
from wirelake.wire.views.spans import Span, trace

from ..errors import BAD_DATA, CommandError
from ..output.common import (
    check_dialect,
    check_direction,
    find_protocol,
    hex_bytes,
    json_line,
    read_input,
)
from ..output.opened import find_opener, opened_json
from ..output.stream import Found, messages_in
from ..output.tree import tree_lines

if TYPE_CHECKING:
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol

__all__ = ["decode"]


def decode(
    protocol: str,
    file: str | None,
    *,
    hex_text: str | None = None,
    direction: str | None = None,
    revision: str | None = None,
    dialect: str | None = None,
    keys_file: str | None = None,
    as_json: bool = False,
    reveal: bool = False,
) -> int:
    """Decode all there is; the exit code is 1 if any of it is bad."""
    found = find_protocol(protocol)
    if revision is not None and revision not in found.revisions:
        known = ", ".join(found.revisions) or "none"
        raise click.UsageError(f"--revision {revision}: {found.name} has revisions: {known}")
    if hex_text is not None and file is not None:
        raise click.UsageError("give a file or --hex, not both")
    name, way = check_dialect(found, dialect), check_direction(found, direction)
    opener = find_opener(found, keys_file, way, name)
    data = read_input(file) if hex_text is None else hex_bytes(hex_text)
    if not data:
        raise CommandError("there are no bytes to decode")
    shown = _Json(found, name, reveal) if as_json else _Tree(found, name, way, revision, reveal)
    code = 0
    for each in messages_in(found, data, direction=way, dialect=name):
        opened, problem = opener.open(each, data)
        for line in shown.lines(each, data, opened):
            click.echo(line)
        for why in (*each.problems(), *filter(None, [problem])):
            click.echo(f"wirelake: {why}", err=True)
            code = BAD_DATA
        if revision is not None:
            _warn(found, each, revision)
    return code


def _warn(protocol: Protocol, found: Found, revision: str) -> None:
    """Print what a strict reader of a revision would refuse."""
    if found.error is not None:
        return
    for problem in protocol.problems(found.message, revision):
        where = f"message {found.number} at byte {found.start}"
        click.echo(f"wirelake: warning: {where}: {problem}", err=True)


class _Json:
    """One object a line; a message that does not decode has none."""

    def __init__(self, protocol: Protocol, dialect: str, reveal: bool):
        self.layout = protocol.model(dialect)
        self.dialect = dialect
        self.reveal = reveal

    def lines(self, found: Found, data: bytes, opened: dict[str, Any]) -> Iterator[str]:  # noqa: ARG002
        """The line of a message."""
        if found.error is not None:
            return
        line = to_json(self.layout, found.message, reveal=self.reveal)
        if opened:
            line["@opened"] = opened_json(opened, self.dialect, reveal=self.reveal)
        yield json_line(line)


class _Tree:
    """A headline, and a line for each field."""

    def __init__(
        self,
        protocol: Protocol,
        dialect: str,
        direction: Direction | None,
        revision: str | None,
        reveal: bool,
    ):
        self.protocol = protocol
        self.layout = protocol.model(dialect)
        self.dialect = dialect
        self.direction = direction
        self.revision = revision
        self.reveal = reveal

    def lines(self, found: Found, data: bytes, opened: dict[str, Any]) -> Iterator[str]:
        """The lines of a message, as far as it can be read."""
        stages = {name: value for name, value in opened.items() if isinstance(value, bytes)}
        root = trace(self.layout, data, found.start, direction=self.direction, stages=stages)
        if self.revision is not None:
            _remove_names(root, self.protocol.revisions[self.revision].unnamed)
        if found.number > 1:
            yield ""
        size = found.stop - found.start
        title = click.style(f"{self.protocol.name} {_name(root)}", bold=True)
        plural = "s" if size != 1 else ""
        yield f"{title}  message {found.number}, {size} byte{plural} at {found.start}"
        yield from tree_lines(root, data, reveal=self.reveal)
        extra = opened_json(opened, self.dialect, reveal=self.reveal)
        staged = {span.name for span in root.walk() if span.stage is not None}
        for name, value in extra.items():
            if name not in staged and not (staged and isinstance(value, dict)):
                yield f"      opened {name}: {json_line(value)}"


def _name(root: Span) -> str:
    """What a message is called: its body, when it has one."""
    body = next((child.layout for child in root.children if child.layout and not child.inner), "")
    return body or root.layout


def _remove_names(root: Span, names: tuple[str, ...]) -> None:
    """Show numbers as numbers that have no name in a revision."""
    for span in root.walk():
        if span.label in names:
            span.names = None
