"""`wirelake call`: calls a service once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..connect.client import connected, connection_options, run_client
from ..main import COMMANDS
from ..options.common import CONTEXT, name_value_pairs, read_input
from ..output.text import body_text, json_line

if TYPE_CHECKING:
    from wirelake.client import Client, Result

__all__ = ["command", "typed_value"]

_HELP = f"""{COMMANDS["call"]}

URL names the server and the target: service and operation for ESNP, a number for tny and magline.
Each NAME=VALUE is an argument; VALUE is JSON, or else text. An s after the protocol, as in
esnps://, selects TLS.

\b
Examples:
  wirelake call esnp://127.0.0.1:9600/test/add a=1 b=2
  wirelake call tny://127.0.0.1:9610/1002 a=1 b=2 --id phone-1 --json
  wirelake call magline://127.0.0.1:9757/0x1002 a=1 b=2 --key hub-data/magline.pub
  wirelake call esnp://127.0.0.1:9600/test/echo --body picture.png

Exit codes: 0 success, 1 the call failed or no response, 2 bad usage.
"""


@click.command(name="call", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--body", metavar="FILE", help="File to send as the body; - is standard input.")
@click.option(
    "--stream", is_flag=True, help="Print each part of the response as it arrives (ESNP)."
)
@click.option("--trace", is_flag=True, help="Print the hops of the call (ESNP).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@connection_options
def command(
    url: str,
    arguments: tuple[str, ...],
    body: str | None,
    stream: bool,
    trace: bool,
    as_json: bool,
    **connection: Any,
) -> None:
    """Call a service and print the response."""
    from wirelake.client.settings import parse_where

    pairs = name_value_pairs("argument", arguments)
    values = {name: typed_value(text) for name, text in pairs.items()}
    given: Any = values or None
    if body is not None:
        content = read_input(body)
        given = (values, content) if values else content

    async def work() -> None:
        target = parse_where(url).target
        if not target:
            raise click.UsageError(f"{url}: missing target, as in {url.rstrip('/')}/test/add")
        async with connected(url, reconnect=False, **connection) as client:
            if stream:
                async for part in client.stream(target, given):
                    _show(part, as_json)
            else:
                _show(await _call(client, target, given, trace), as_json)

    run_client(work())


async def _call(client: Client, target: str, given: Any, trace: bool) -> Result:
    result = await client.call(target, given, trace=trace)
    for report in result.traces:
        click.echo(f"via {report}", err=True)
    return result


def typed_value(text: str) -> Any:
    """Parse an argument: an integer, a JSON value, or else the text itself."""
    import json

    try:
        return int(text)
    except ValueError:
        pass
    try:
        return json.loads(text)
    except ValueError:
        return text


def _show(result: Result, as_json: bool) -> None:
    data = {name: _plain(value) for name, value in result.data.items()}
    raw = result.beside
    if as_json:
        shown: dict[str, Any] = {"data": data}
        if raw:
            shown["body_hex"] = raw.hex()
        click.echo(json_line(shown))
        return
    for name, value in data.items():
        click.echo(f"{name} = {json_line(value)}")
    if raw:
        click.echo(body_text(raw))


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent; bytes become hexadecimal."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
