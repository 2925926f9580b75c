"""`wirelake call`: one call to a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..main import COMMANDS
from ..output.common import (
    CONTEXT,
    json_line,
    read_input,
)
from .client_run import (
    connected,
    connection_options,
    printable,
    run,
    typed_value,
)

if TYPE_CHECKING:
    from wirelake.client import Client, Result

__all__ = ["command"]

_HELP = f"""{COMMANDS["call"]}

URL names the server and what to call: a service and an operation for ESNP, a number for tny and
magline. Each NAME=VALUE is an argument: VALUE is a number, true, false, null, JSON in brackets or
quotes, or else a text. An s after the protocol, as in esnps://, is TLS.

\b
Examples:
  wirelake call esnp://127.0.0.1:9600/test/add a=1 b=2
  wirelake call tny://127.0.0.1:9610/1002 a=1 b=2 --id phone-1 --json
  wirelake call magline://127.0.0.1:9757/0x1002 a=1 b=2 --key hub-data/magline.pub
  wirelake call esnp://127.0.0.1:9600/test/echo --body picture.png

Exit codes: 0 success, 1 the call failed or nobody answered, 2 bad usage.
"""


@click.command(name="call", help=_HELP, context_settings=CONTEXT)
@click.argument("url")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--body", metavar="FILE", help="Send these bytes; - is standard input.")
@click.option("--stream", is_flag=True, help="Show each part of the answer as it comes (ESNP).")
@click.option("--trace", is_flag=True, help="Show who the call passed by (ESNP).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
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
    """Call once, and show the answer."""
    from wirelake.client.address import parse_where

    values = _values(arguments)
    given: Any = values or None
    if body is not None:
        content = read_input(body)
        given = (values, content) if values else content

    async def work() -> None:
        target = parse_where(url).target
        if not target:
            raise click.UsageError(f"{url}: say what to call, as in {url.rstrip('/')}/test/add")
        async with connected(url, reconnect=False, **connection) as client:
            if stream:
                async for part in client.stream(target, given):
                    _show(part, as_json)
            else:
                _show(await _call(client, target, given, trace), as_json)

    run(work())


async def _call(client: Client, target: str, given: Any, trace: bool) -> Result:
    result = await client.call(target, given, trace=trace)
    for report in result.traces:
        click.echo(f"passed by: {report}", err=True)
    return result


def _values(arguments: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in arguments:
        name, separator, text = each.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{each}: wanted NAME=VALUE")
        values[name] = typed_value(text)
    return values


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
        click.echo(printable(raw))


def _plain(value: Any) -> Any:
    """Values of JSON; bytes are hexadecimal."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
