"""`wirelake decode`: bytes to messages, as a tree of fields or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..errors import BAD_DATA, CommandError, unknown_name
from ..main import COMMANDS
from ..options import CONTEXT, check_dialect, check_direction, find_protocol, hex_bytes, read_input
from ..output.text import counted, json_line

if TYPE_CHECKING:
    from wirelake.capture.record.masking import Masker
    from wirelake.wire.model import Direction
    from wirelake.wire.protocol import Protocol
    from wirelake.wire.views._trace_layouts import Span

    from .messages import DecodedMessage

__all__ = ["command"]

_HELP = f"""{COMMANDS["decode"]}

FILE contains one or more messages; - is standard input. Secrets are masked unless --reveal
is given. --keys is a JSON object; `wirelake protocols show PROTOCOL` lists its members.

\b
Examples:
  wirelake decode comet --direction c2s --hex 000106
  wirelake decode esnp capture.bin --json
  wirelake decode magline --keys keys.json session.bin
  cat packets.bin | wirelake decode tny - --dialect upstream
"""


@click.command(name="decode", help=_HELP, context_settings=CONTEXT)
@click.argument("protocol")
@click.argument("file", required=False)
@click.option("--hex", "hex_text", metavar="TEXT", help="Input as hexadecimal text.")
@click.option("--direction", type=click.Choice(["c2s", "s2c"]), help="Direction of the bytes.")
@click.option("--revision", metavar="NAME", help="Revision of the protocol to check.")
@click.option("--dialect", metavar="NAME", help="Dialect of the protocol.  [default: the first]")
@click.option("--keys", "keys_file", metavar="FILE", help="JSON file with decryption keys.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--reveal", is_flag=True, help="Show secrets.")
def command(
    protocol: str,
    file: str | None,
    hex_text: str | None,
    direction: str | None,
    revision: str | None,
    dialect: str | None,
    keys_file: str | None,
    as_json: bool,
    reveal: bool,
) -> int:
    """Decode every message of the input; exit 1 if one of them is invalid."""
    from .messages import find_opener, messages_in

    chosen = find_protocol(protocol)
    if revision is not None and revision not in chosen.revisions:
        raise unknown_name("revision", revision, chosen.revisions, of=chosen.name)
    if hex_text is not None and file is not None:
        raise click.UsageError("--hex conflicts with FILE")
    name, sent_in = check_dialect(chosen, dialect), check_direction(chosen, direction)
    opener = find_opener(chosen, keys_file, sent_in, name)
    data = read_input(file) if hex_text is None else hex_bytes(hex_text)
    if not data:
        raise CommandError("empty input: no bytes to decode")
    view = (
        _Json(chosen, name, sent_in, reveal)
        if as_json
        else _Tree(chosen, name, sent_in, revision, reveal)
    )
    code = 0
    for each in messages_in(chosen, data, direction=sent_in, dialect=name):
        opened, problem = opener.open(each, data)
        for line in view.lines(each, data, opened):
            click.echo(line)
        for why in (*each.problems(), *filter(None, [problem])):
            click.echo(f"wirelake: {why}", err=True)
            code = BAD_DATA
        if revision is not None:
            _warn_about_revision(chosen, each, revision)
    return code


def _warn_about_revision(protocol: Protocol, decoded: DecodedMessage, revision: str) -> None:
    """Print what a strict decoder of a revision would refuse."""
    if decoded.error is not None:
        return
    for problem in protocol.problems(decoded.message, revision):
        where = f"message {decoded.number} at byte {decoded.start}"
        click.echo(f"wirelake: warning: {where}: {problem}", err=True)


class _Json:
    """One JSON object per message; an invalid message has none."""

    def __init__(self, protocol: Protocol, dialect: str, direction: Direction | None, reveal: bool):
        self.layout = protocol.model(dialect)
        self.dialect = dialect
        self.reveal = reveal
        self.masker = _masker(protocol, dialect, direction)

    def lines(self, decoded: DecodedMessage, data: bytes, opened: dict[str, Any]) -> Iterator[str]:  # noqa: ARG002
        """Yield the line of a message."""
        from wirelake.records.exact_json import exact
        from wirelake.wire.views.json import to_json

        from .messages import opened_json

        if decoded.error is not None:
            return
        shown = self.reveal or not self.masker.has_credentials(decoded.message, opened)
        line = to_json(self.layout, decoded.message, reveal=self.reveal, content=shown)
        if opened:
            line["@opened"] = opened_json(opened, self.dialect, reveal=self.reveal, content=shown)
        yield json_line(exact(line))


class _Tree:
    """A headline per message, and a line per field."""

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
        self.masker = _masker(protocol, dialect, direction)

    def lines(self, decoded: DecodedMessage, data: bytes, opened: dict[str, Any]) -> Iterator[str]:
        """Yield the lines of a message, as far as it can be decoded."""
        from wirelake.wire.views._trace_layouts import trace

        from ..output.tree import tree_lines
        from .messages import opened_json

        stages = {name: value for name, value in opened.items() if isinstance(value, bytes)}
        root = trace(self.layout, data, decoded.start, direction=self.direction, stages=stages)
        if self.revision is not None:
            _remove_names(root, self.protocol.revisions[self.revision].unnamed)
        # An invalid message has no target to tell a sign-on by: its bytes are shown.
        credentials = decoded.error is None and self.masker.has_credentials(decoded.message, opened)
        if credentials:
            self.masker.mark_content(root)
        if decoded.number > 1:
            yield ""
        size = decoded.stop - decoded.start
        title = click.style(f"{self.protocol.name} {_name(root)}", bold=True)
        yield f"{title}  message {decoded.number}, {counted(size, 'byte')} at {decoded.start}"
        yield from tree_lines(root, data, reveal=self.reveal)
        shown = self.reveal or not credentials
        extra = opened_json(opened, self.dialect, reveal=self.reveal, content=shown)
        staged = {span.name for span in root.walk() if span.stage is not None}
        for name, value in extra.items():
            if name not in staged and not (staged and isinstance(value, dict)):
                yield f"      opened {name}: {json_line(value)}"


def _masker(protocol: Protocol, dialect: str, direction: Direction | None) -> Masker:
    from wirelake.capture.record.masking import Masker

    return Masker(protocol, dialect, direction or "c2s", content=False)


def _name(root: Span) -> str:
    """Return the name of the message: that of its body, if it has one."""
    body = next((child.layout for child in root.children if child.layout and not child.inner), "")
    return body or root.layout


def _remove_names(root: Span, names: tuple[str, ...]) -> None:
    """Show numbers that have no name in a revision as numbers."""
    for span in root.walk():
        if span.label in names:
            span.names = None
