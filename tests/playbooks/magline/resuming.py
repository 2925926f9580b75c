"""Steps that playbooks of resumption share.

All keys, secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from typing import Any

from tests.playbooks.magline.peer import ClientPeer, an_ack, new_server, open_server
from tests.playbooks.playbook import Emits, EmitsKind, Playbook

from wirelake.protocols.magline.layout import ErrorNumber, Pin, Pon, Reason
from wirelake.protocols.magline.session import (
    Established,
    MemoryStore,
    Pinged,
    Resumed,
    Ticket,
    session_id_of,
)

UNKNOWN = ("session_unknown", ErrorNumber.SESSION_UNKNOWN, Reason.RESUME)


def first(store: MemoryStore, **more: Any) -> tuple[ClientPeer, Playbook]:
    """A connection that may be resumed."""
    return open_server(store=store, **more)


def resuming(
    store: MemoryStore, ticket: Ticket, *, number: int = 2, **more: Any
) -> tuple[ClientPeer, Playbook]:
    """A server after a reSYN and its ACK, not confirmed; every attempt has keys of its own."""
    peer, book = new_server(
        store=store, seed=f"server {number}", private=bytes([number]) * 32, **more
    )
    return peer, book >> peer.syn(ticket) << an_ack << EmitsKind.of(Established, resumed=True)


def confirm(peer: ClientPeer, book: Playbook, replaced: ClientPeer, principal: str = "") -> None:
    """The client's PIN, and what it sets off."""
    new, old = session_id_of(peer.sid), session_id_of(replaced.sid)
    book >> Pin(ping_number=1) << Pon(ping_number=1)
    book << Emits(Resumed(new, old, principal)) << Emits(Pinged(1))
