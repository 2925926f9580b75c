"""Clients for ESNP, tny, magline and comet: one shape for all.

    async with connect("comet://127.0.0.1:9620", id="phone-1", token=token) as c:
        await c.subscribe("@news")
        async for n in c.notifications():
            await c.ack(n)

`Client` says what can be asked, `Settings` what can be set, `errors` what can go wrong.
"""

from .client import Client, connect
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
from .pool import RpcPool
from .settings import Settings
from .values import (
    Notification,
    Published,
    Result,
)

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
