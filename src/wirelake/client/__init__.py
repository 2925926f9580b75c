"""Clients with one interface for all protocols.

    async with connect("comet://127.0.0.1:9620", id="phone-1", token=token) as c:
        await c.subscribe("@news")
        async for n in c.notifications():
            await c.ack(n)

In reading order:

    client       `Client`: calls, topics, notifications; `RpcPool`
    inbox        notifications between the connection and the application
    reconnect    a connection that is replaced when it is lost
    dial         dialling by the binding of a protocol; backoff
    connection   `ClientConnection`: the base class, and what a protocol provides
    esnp, tny, magline, comet   one protocol each
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
    CallFailed,
    ClientError,
    ConnectionLost,
    Refused,
    Timeout,
    Unsupported,
)
from .settings import Settings

__all__ = [
    "AuthFailed",
    "BadCall",
    "CallFailed",
    "Client",
    "ClientError",
    "ConnectionLost",
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
