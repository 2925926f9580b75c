"""Clients with one interface for all protocols.

    async with connect("comet://127.0.0.1:9620", id="phone-1", token=token) as c:
        await c.subscribe("@news")
        async for n in c.notifications():
            await c.ack(n)

In reading order:

    client       `Client`: calls, topics, notifications; `RpcPool`
    sync         the same without asyncio, for scripts
    inbox        notifications between the connection and the application
    reconnect    a connection that is replaced when it is lost
    addresses    which server is tried next, and when
    call_queue   requests that wait because too many are pending
    dial         dialling by the binding of a protocol
    connection   `ClientConnection`: the base class, and what a protocol provides
    esnp, tny, magline, comet   one protocol each, with its typed client
    settings     options of a client; URLs
    errors       what can go wrong

The client knows protocols by their bindings (`wirelake.protocols.binding`); only the module of a
protocol names it. It may import `wirelake.protocols` and `wirelake.wire`, and not the hub.
"""

from .client import Client, RpcPool, connect
from .connection import Notification, Published, Push, Result
from .errors import (
    AuthFailed,
    BadCall,
    Busy,
    CallFailed,
    ClientError,
    ConnectionLost,
    NotConnected,
    Refused,
    Timeout,
    Unsupported,
)
from .settings import Settings

__all__ = [
    "AuthFailed",
    "BadCall",
    "Busy",
    "CallFailed",
    "Client",
    "ClientError",
    "ConnectionLost",
    "NotConnected",
    "Notification",
    "Published",
    "Push",
    "Refused",
    "Result",
    "RpcPool",
    "Settings",
    "Timeout",
    "Unsupported",
    "connect",
]
