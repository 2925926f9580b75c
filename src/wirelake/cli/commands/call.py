"""`wirelake call` and `ping`: one request to a server, and its response."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from wirelake.protocols.hub_calls import SERVICES

from ..connect import (
    client_errors,
    connection_options,
    message_object,
    run_client,
    server,
    server_with_calls,
)
from ..errors import BAD_DATA
from ..main import COMMANDS
from ..options import CONTEXT, name_value_pairs, read_input, typed_value
from ..output.text import body_text, counted, duration_text, json_line, print_notice, printable

if TYPE_CHECKING:
    from wirelake.client import Client, Result

__all__ = ["call", "ping"]

_CALL_HELP = f"""{COMMANDS["call"]}

URL names the server and the target: service and operation, or a number, as the protocol requires.
Several servers are separated by commas: one that can be connected to is used.
With a saved context (wirelake context), the target is enough. Each NAME=VALUE is an argument; VALUE
is JSON, or else text. An s after the protocol selects TLS.

\b
Examples:
  wirelake call esnp://127.0.0.1:9600/test/add a=1 b=2
  wirelake call tny://127.0.0.1:9610/1002 a=1 b=2 --id phone-1 --json
  wirelake call magline://127.0.0.1:9757/0x1002 a=1 b=2 --key hub-data/magline.pub
  wirelake call esnp://127.0.0.1:9600/test/echo --body picture.png
  wirelake call 'esnp://127.0.0.1:9600/test/add?g=blue&to=500' a=1 b=2 --field 'flags=[128]'
  wirelake call esnp://127.0.0.1:9600/test/echo a=1 --event
  wirelake call esnp://hub-1,hub-2:9700,hub-3/test/add a=1 b=2
  wirelake call --list esnp://127.0.0.1:9600 --id phone-1
"""


_URL_EXAMPLE: Final = "esnp://127.0.0.1:9600/test/add"


@click.command(name="call", help=_CALL_HELP, context_settings=CONTEXT)
@click.argument("url", required=False)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--body",
    "bodies",
    multiple=True,
    metavar="FILE",
    help="File to send as the body; - is standard input. Repeat for a request in parts, if the"
    " protocol has them.",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME=VALUE",
    help="Field of the protocol beside the arguments, as JSON or text, such as line=3 or"
    """ headers='{"k": "v"}'; repeat for more.""",
)
@click.option(
    "--stream",
    is_flag=True,
    help="Print each part of the response as it arrives, if the protocol has streams.",
)
@click.option("--trace", is_flag=True, help="Print the hops of the call, if reported.")
@click.option("--event", is_flag=True, help="Send an event, which has no response.")
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List the services of a hub that the client may call: where they run, and how fast.",
)
@click.option(
    "--message",
    "whole",
    is_flag=True,
    help="Print the response with all fields of the protocol, as JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@connection_options
def call(
    url: str | None,
    arguments: tuple[str, ...],
    bodies: tuple[str, ...],
    fields: tuple[str, ...],
    stream: bool,
    trace: bool,
    event: bool,
    listing: bool,
    whole: bool,
    as_json: bool,
    **connection: Any,
) -> None:
    """Call a service and print the response."""
    if listing:
        if arguments or bodies or fields or stream or trace or event or whole:
            raise click.UsageError("--list takes a URL, and no arguments of a call")
        _list_services(server(url, connection), as_json, connection)
        return
    pairs = name_value_pairs("argument", arguments)
    values = {name: typed_value(text) for name, text in pairs.items()}
    given = _arguments(values, bodies)
    pairs = name_value_pairs("--field", fields)
    options = {name: typed_value(text) for name, text in pairs.items()}
    if url is None:
        raise click.UsageError(f"missing URL, as in {_URL_EXAMPLE}")
    url = server(url, connection)
    with client_errors():
        used = {
            "--stream": (stream, "has_streams"),
            "--trace": (trace, "has_traces"),
            "--event": (event, "has_events"),
            "--message": (whole, "has_messages"),
            "more than one --body": (len(bodies) > 1, "has_parts"),
        }
        target = _target(url, options, {name: has for name, (given, has) in used.items() if given})
    if event and (stream or trace or whole):
        raise click.UsageError("--event conflicts with --stream, --trace and --message")

    def show(client: Client, result: Result) -> None:
        if whole:
            click.echo(json_line(message_object(client, result.message)))
        else:
            _show_result(result, as_json)

    async def work(client: Client) -> None:
        if event:
            await client.announce(target, given, **options)
        elif stream:
            async for part in client.stream(target, given, **options):
                show(client, part)
        else:
            show(client, await _call(client, target, given, trace, options))

    run_client(url, connection, work, reconnect=False)


def _arguments(values: dict[str, Any], bodies: tuple[str, ...]) -> Any:
    """Return the arguments of a call; several bodies are the parts of a request."""
    parts: list[Any] = [read_input(body) for body in bodies]
    if not parts:
        return values or None
    if values:
        parts[0] = (values, parts[0])
    return parts if len(parts) > 1 else parts[0]


_EXAMPLES: Final = {"names": "test/add", "numbers": "1002"}
"""A target for each way to name a service."""


def _target(url: str, options: dict[str, Any], needs: dict[str, str]) -> str:
    """Return the target of a URL; it and the options are checked before anything is dialled.

    `needs` has the attribute of the protocol's connection that each option requires.
    """
    from wirelake.client import BadCall, Unsupported
    from wirelake.client.connection import number_of
    from wirelake.client.dial import connection_class
    from wirelake.wire.errors import invalid

    addresses, binding = server_with_calls(url, "calls")
    where = addresses[0]
    example = _EXAMPLES[binding.addressing]
    if not where.target:
        raise click.UsageError(f"{url}: missing target, as in {url.rstrip('/')}/{example}")
    if binding.addressing == "numbers":
        if number_of(where.target) > binding.max_number:
            raise BadCall(invalid("target", where.target, f"a number up to {binding.max_number}"))
    elif not all(where.target.partition("?")[0].partition("/")):
        expected = f"a service and an operation, such as {example}"
        raise BadCall(invalid("target", where.target, expected))
    connection = connection_class(where.protocol)
    for option, has in needs.items():
        if not getattr(connection, has):
            raise Unsupported(f"{where.protocol} has no {option}")
    connection.check_options(options)
    return connection.url_target(addresses)


async def _call(
    client: Client, target: str, given: Any, trace: bool, options: dict[str, Any]
) -> Result:
    result = await client.call(target, given, trace=trace, **options)
    for report in result.traces:
        click.echo(f"via {report}", err=True)
    if result.parts > 1:
        # Of values with the same name in several parts only the first is shown.
        print_notice("the response is a stream; --stream prints each of its parts")
    return result


def _show_result(result: Result, as_json: bool) -> None:
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


# -- services ------------------------------------------------------------------------------------

_PAGE: Final = 100
"""Services per request."""


def _list_services(url: str, as_json: bool, connection: dict[str, Any]) -> None:
    """Print the services of a hub."""
    with client_errors():
        _, binding = server_with_calls(url, "calls")
    target = SERVICES.target if binding.addressing == "names" else SERVICES.number

    async def work(client: Client) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            page = {"offset": len(found), "limit": _PAGE}
            data = (await client.call(target, page)).data
            found += data["services"]
            if not data["services"] or len(found) >= data["count"]:
                return found

    found = run_client(url, connection, work, reconnect=False)
    if as_json:
        for each in found:
            click.echo(json_line(each))
    elif not found:
        print_notice("no services")
    else:
        for each in found:
            _show_service(each)


def _show_service(service: dict[str, Any]) -> None:
    """Print a service in two lines, which fit a terminal: what it is, and how it does."""
    numbers = "".join(f"  {name}={n}" for name, n in sorted(service["numbers"].items()))
    click.echo(printable(f"{service['name']}{service['signature']}{numbers}"))
    where = [f"{name} x{n}" if n > 1 else name for name, n in Counter(service["where"]).items()]
    parts = [
        f"at {', '.join(where)}" if where else "nowhere",
        f"{service['running']:,} running",
        counted(service["calls"], "call"),
        f"{service['failed']:,} failed",
    ]
    if service["calls"]:
        for name in ("p50", "p99"):
            parts.append(f"{name} {duration_text(service[f'{name}_us'] * 1_000)}")
    click.echo(printable(f"    {', '.join(parts)}"))


# -- ping --------------------------------------------------------------------------------------

_PING_HELP = f"""{COMMANDS["ping"]}

Sends the heartbeat of the protocol or, if it has none, a request that every server answers. No
sign-on is needed. Ctrl-C ends it early; the summary is printed in any case.

\b
Examples:
  wirelake ping esnp://127.0.0.1:9600
  wirelake ping comet://127.0.0.1:9620 --count 10 --interval 0.2
  wirelake ping magline://127.0.0.1:9757 --key hub-data/magline.pub --json
"""


@click.command(name="ping", help=_PING_HELP, context_settings=CONTEXT)
@click.argument("url", required=False)
@click.option(
    "--count", type=click.IntRange(min=1), default=4, show_default=True, metavar="N", help="Pings."
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between pings.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@connection_options
def ping(url: str | None, count: int, interval_s: float, as_json: bool, **connection: Any) -> int:
    """Ping a server; return the exit code."""
    round_trips_s: list[float] = []
    sent = 0

    async def work(client: Client) -> None:
        nonlocal sent
        for number in range(1, count + 1):
            if number > 1:
                await asyncio.sleep(interval_s)
            sent = number
            round_trips_s.append(await client.ping())
            place = client.address.place
            _show_ping(place, number, round_trips_s[-1] * 1000, as_json)

    try:
        run_client(server(url, connection), connection, work, reconnect=False)
    except KeyboardInterrupt:
        if not sent:
            raise
    finally:
        if sent and not as_json:
            click.echo(_ping_summary(sent, [seconds * 1000 for seconds in round_trips_s]))
    return 0 if round_trips_s else BAD_DATA


def _ping_summary(sent: int, round_trips_ms: list[float]) -> str:
    answered = len(round_trips_ms)
    head = f"{sent} sent, {answered} answered"
    if not answered:
        return head
    low, high = min(round_trips_ms), max(round_trips_ms)
    return f"{head}; min/avg/max {low:.3f}/{sum(round_trips_ms) / answered:.3f}/{high:.3f} ms"


def _show_ping(place: str, number: int, round_trip_ms: float, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({"ping": number, "ms": round(round_trip_ms, 3)}))
    else:
        click.echo(f"{place}: {number} in {round_trip_ms:.3f} ms")
    sys.stdout.flush()
