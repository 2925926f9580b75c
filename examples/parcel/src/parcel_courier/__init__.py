"""A complete protocol for Wirelake: couriers and their depot.

    protocol.py   the bytes of every message, their meaning, and `PROTOCOL`
    session.py    a connection without I/O, both ends
    scenes.py     simulated couriers
    __init__.py   `BINDING`: settings, listener, client, error numbers
    listener.py   the hub's side of a connection
    client.py     the client's side of a connection

Two entry points name `PROTOCOL` and `SCENES`. `PROTOCOL` names `BINDING`, which names listener and
client as text: a reader of captures imports neither, and a client does not import the hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wirelake.protocols.binding import Auth, Binding, ListenerSettings

from .protocol import PORT, PROTOCOL, Status
from .session import IDLE_S

__all__ = ["BINDING", "PROTOCOL", "ParcelSettings"]


class ParcelSettings(ListenerSettings, frozen=True, kw_only=True):
    """Parcel tracking, for couriers."""

    port: int = PORT
    auth: Auth = "token"
    """`token`: a connection must sign on first. `none`: no sign-on; loopback only."""
    idle_s: float = IDLE_S
    """Close a connection after this time without a frame."""


def _topics_fit(topics: Sequence[str]) -> bool:
    """Return whether a notice can name each of these topics: its length is one byte."""
    return all(len(topic.encode()) <= 0xFF for topic in topics)


BINDING: Final = Binding(
    settings=ParcelSettings,
    listener="parcel_courier.listener:ParcelListener",
    client="parcel_courier.client:ParcelConnection",
    addressing="names",
    errors={
        "bad_arguments": Status.BAD_REQUEST,
        "not_found": Status.UNKNOWN_SERVICE,
        "auth_required": Status.NOT_ALLOWED,
        "auth_failed": Status.NOT_ALLOWED,
        "forbidden": Status.NOT_ALLOWED,
        "too_busy": Status.TRY_LATER,
        "closing": Status.TRY_LATER,
        "internal": Status.FAILED,
    },
    topics_fit=_topics_fit,
)
