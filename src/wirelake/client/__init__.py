"""Clients with one interface for all protocols.

    async with connect("comet://127.0.0.1:9620", id="phone-1", token=token) as c:
        await c.subscribe("@news")
        async for n in c.notifications():
            await c.ack(n)

In reading order:

    client.py       `Client`: calls, topics, notifications
    reconnect.py    a connection that is replaced when it is lost
    dial.py         how one is made, by the binding of its protocol; backoff
    connection.py   `ClientConnection`: the base class, and what a protocol provides
    esnp.py, tny.py, magline.py, comet.py   one protocol each; numbered.py: services by number
    settings.py, address.py, values.py, inbox.py, json_bodies.py, errors.py, pool.py

The client knows protocols by their bindings (`wirelake.protocols.binding`); only the file of a
protocol names it. It does not import the hub.
"""

from .client import Client, RpcPool, connect
from .connection import Notification, Published, Result
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
    "Refused",
    "Result",
    "RpcPool",
    "Settings",
    "Timeout",
    "Unsupported",
    "connect",
]
