"""A complete protocol for Wirelake: couriers and their depot.

    layout.py     the bytes of every message
    meaning.py    what the messages mean, for tables
    session.py    the connection without I/O, both ends
    listener.py   the hub's side
    client.py     the client's side

`PROTOCOL` is what the entry point names; `BINDING` is how it goes live.
"""

from __future__ import annotations

from typing import Final

from wirelake.protocols.binding import Auth, Binding, ListenerSettings
from wirelake.wire import Protocol

from .layout import Frame, Status
from .meaning import MEANING

__all__ = ["BINDING", "PROTOCOL", "ParcelSettings"]

_PORT: Final = 9640

PROTOCOL: Final = Protocol(
    name="parcel",
    title="parcel: couriers and their depot",
    frame=Frame,
    port=_PORT,
    meaning=MEANING,
    binding="parcel_courier:BINDING",
)


class ParcelSettings(ListenerSettings, frozen=True, kw_only=True):
    """Parcel tracking, for couriers."""

    port: int = _PORT
    auth: Auth = "token"
    """`token`: a connection must say hello first. `none`: no sign-on; loopback only."""
    idle_s: float = 60.0
    """Close after this time without a frame."""


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
)
