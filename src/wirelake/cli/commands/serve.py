"""`wirelake serve`: a process that offers services to hubs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import click

from ..connect import client_errors, client_options, connection_options, server
from ..errors import CommandError
from ..main import COMMANDS
from ..named_services import named_services
from ..options import CONTEXT
from ..output.text import counted, print_notice
from ..signals import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wirelake.serving import ServiceProcess

__all__ = ["command"]

_CALLS: Final = 64
_MAX_CALLS: Final = 256

_HELP = f"""{COMMANDS["serve"]}

SERVICES is MODULE:NAME, an instance of wirelake.hub.rpc.services.Services, as for wirelake hub
--services. The process connects to each hub, signs on as a client, and offers all of its
services; the client needs the right to do that (serve in [[rights.clients]] of hub.toml).
Clients of every protocol can call them. Any number of processes may offer the same services: each
call goes to the one with the fewest calls.

Prints `ready` when all hubs have accepted the services. A lost connection is dialled again. SIGTERM
or Ctrl-C withdraws the services, lets the calls under way finish, and ends.

\b
Examples:
  wirelake serve shop:services --to esnp://127.0.0.1:9600 --id shop-1 --token-file shop-1.token
  wirelake serve shop:services --to esnps://a:9600 --to esnps://b:9600 --id shop-1 --calls 16
"""


@click.command(name="serve", help=_HELP, context_settings=CONTEXT)
@click.argument("named", metavar="SERVICES")
@click.option(
    "--to",
    "urls",
    multiple=True,
    metavar="URL",
    help="Hub to offer the services to; repeat for more.  [default: the server of the context]",
)
@click.option(
    "--calls",
    type=click.IntRange(1, _MAX_CALLS),
    default=_CALLS,
    show_default=True,
    metavar="N",
    help="Calls under way at a time, for each hub.",
)
@click.option(
    "--drain",
    "drain_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long calls under way may take when the process is ended.",
)
@connection_options
def command(
    named: str, urls: tuple[str, ...], calls: int, drain_s: float, **connection: Any
) -> None:
    """Offer services until a signal."""
    from wirelake.client import CallFailed
    from wirelake.serving import ServiceProcess

    services = named_services("SERVICES", named)
    processes = []
    for given in urls or (None,):
        options = dict(connection)
        url = server(given, options)
        with client_errors():
            made = ServiceProcess(services, url, calls=calls, **client_options(**options))
        processes.append(made)
    with client_errors():
        try:
            asyncio.run(_serve(processes, drain_s))
        except CallFailed as error:
            if connection["client_id"] is None and error.text == "auth required":
                raise CommandError(f"{error}; give --id and --token-file") from error
            raise


async def _serve(processes: Sequence[ServiceProcess], drain_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def request_stop() -> None:
        loop.call_soon_threadsafe(stop.set)

    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(stopped_by_signals(request_stop))
        for each in processes:
            await stack.enter_async_context(each)
            offered = counted(len(each.services.every), "service")
            click.echo(f"offering {offered} to {each.settings.where.place}")
        click.echo("ready")
        stopped = asyncio.ensure_future(stop.wait())
        waits = [asyncio.ensure_future(each.wait()) for each in processes]
        await asyncio.wait([stopped, *waits], return_when=asyncio.FIRST_COMPLETED)
        failed = [each.exception() for each in waits if each.done()]
        left = sum(await asyncio.gather(*[each.drain(drain_s) for each in processes]))
        for task in (stopped, *waits):
            task.cancel()
        await asyncio.gather(stopped, *waits, return_exceptions=True)
    for error in failed:
        if error is not None:
            raise error
    if left:
        print_notice(f"{counted(left, 'call')} cancelled after {drain_s:g} s")
