"""magline connections, both roles: the names that applications use (seed 003).

    client = ClientSession(key=ClientKey(pinned=...), entropy=os.urandom, now=now)
    client.connect()
    server = ServerSession(keys=ServerKeys(static=[...]), entropy=os.urandom, store=store, now=now)

State tables and replies are in `server.py` and `client.py`, what both ends share in `endpoint.py`.
The application answers requests, authenticates clients, and closes the connection that a resumed
one replaces.

Rule and section numbers refer to `docs/decisions/magline.md`.
"""

from __future__ import annotations

from .client import ClientSession
from .endpoint import (
    Authenticated,
    Established,
    Failure,
    Finished,
    Pinged,
    Ponged,
    Push,
    Pushed,
    Refused,
    Replied,
    Reply,
    Request,
    Requested,
    RequestFailed,
    RequestLost,
    Resumed,
)
from .resumption import (
    ClientKey,
    MemoryStore,
    ResumptionState,
    ResumptionStore,
    ServerKeys,
    Ticket,
    session_id_of,
)
from .server import ServerSession

__all__ = [
    "Authenticated",
    "ClientKey",
    "ClientSession",
    "Established",
    "Failure",
    "Finished",
    "MemoryStore",
    "Pinged",
    "Ponged",
    "Push",
    "Pushed",
    "Refused",
    "Replied",
    "Reply",
    "Request",
    "RequestFailed",
    "RequestLost",
    "Requested",
    "Resumed",
    "ResumptionState",
    "ResumptionStore",
    "ServerKeys",
    "ServerSession",
    "Ticket",
    "session_id_of",
]
