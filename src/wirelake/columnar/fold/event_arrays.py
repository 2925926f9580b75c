"""The events of a window in arrays: input of the kernels, and what they find out of each event.

`wide` and `narrow` have a row for each column. Columns of events that are no messages go by other
names, below.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ABOUT",
    "ADDRESS",
    "BY",
    "CARRIER",
    "CLAIMS",
    "CLIENT",
    "CLIENT_PORT",
    "CLOSE",
    "CODE",
    "CONFIRMS",
    "CONNECT",
    "CONNECTED",
    "CONTROL",
    "DISCONNECT",
    "END",
    "EXTRA",
    "FAULT",
    "FIRST",
    "FLAGS",
    "FROM_SERVER",
    "GAP",
    "HANDSHAKE",
    "HARMLESS",
    "HEARTBEAT",
    "HOW",
    "INSTANCE",
    "KEY",
    "KIND",
    "KINDS",
    "LINK",
    "MINE",
    "NARROW",
    "NUMBER",
    "NUMBERED",
    "OPENED",
    "OTHER",
    "PART",
    "PROTOCOL",
    "PUSH",
    "RANKS",
    "REASON",
    "REFUSED",
    "REPLIES",
    "REPLY",
    "REQUEST",
    "RESPONSE",
    "RESUMES",
    "SEALED",
    "SERVER_ADDRESS",
    "SERVER_PORT",
    "SIGN_ON",
    "SIZE",
    "STATUS",
    "TARGET",
    "TRACE",
    "TS",
    "TUNNEL",
    "TUNNELLED",
    "USER_FAMILY",
    "USER_HIGH",
    "USER_LOW",
    "USER_PORT",
    "WHOLE",
    "WIDE",
    "EventArrays",
]

TS, FIRST, KEY, NUMBER, REPLY, SIZE, LINK = range(7)
WIDE: Final = 7
"""Rows of `wide`: when it happened, and when it began; the connection; ids; bytes, or those that
are missing; the link of a message in a tunnel, or 0."""
CLIENT_PORT: Final = NUMBER
SERVER_PORT: Final = REPLY
INSTANCE: Final = NUMBER
TUNNEL: Final = REPLY
USER_HIGH: Final = FIRST
USER_LOW: Final = SIZE
"""What some of these rows hold for events that are no messages."""

KIND, FLAGS, TARGET, STATUS, REASON, CLIENT, PROTOCOL, EXTRA = range(8)
NARROW: Final = 8
"""Rows of `narrow`: a kind and flags, as below; codes of texts; a place in `extras`, or NO."""
ADDRESS: Final = TARGET
SERVER_ADDRESS: Final = STATUS
CODE: Final = TARGET
BY: Final = STATUS
USER_PORT: Final = STATUS
USER_FAMILY: Final = REASON
HOW: Final = REASON
"""What some of these rows hold for events that are no messages."""

OPENED, CLOSE, SIGN_ON, FAULT, REQUEST, RESPONSE, PART, TRACE, SEALED, PUSH = range(10)
HANDSHAKE, CONTROL, OTHER, TUNNELLED, END = range(10, 15)
"""Kinds: a connection begins; two kinds of fact; a fault; kinds of messages, those in tunnels for
themselves; a connection ends."""
CONNECT, CONNECTED, REFUSED, DISCONNECT, CARRIER, ABOUT = range(15, 21)
"""Kinds for the fold of tunnels: packets of a link about a tunnel. Those that do nothing but show
that it is there are ABOUT."""
KINDS: Final = {
    "request": REQUEST,
    "response": RESPONSE,
    "part": PART,
    "trace": TRACE,
    "sealed": SEALED,
    "push": PUSH,
    "event": PUSH,
    "handshake": HANDSHAKE,
    "control": CONTROL,
}
"""By the column `kind` of messages; all others are OTHER."""
# The order that "Input and order" of `docs/concepts/matching.md` defines: a fault before the
# messages of the same time, so that doubt ends in `unknown` rather than in a wrong match.
RANKS: Final = np.array([0, 1, 1, 2, *[3] * 10, 4, *[3] * 6])
"""By kind: which of several events comes first at one and the same time."""

FROM_SERVER, NUMBERED, REPLIES, HEARTBEAT, CONFIRMS, RESUMES, WHOLE, HARMLESS, GAP, MINE = (
    1 << bit for bit in range(10)
)
CLAIMS: Final = 1 << 10
"""Flags. Of messages: who sent it (also of faults), whether it has an id and answers one, is a
heartbeat, confirms a client, wants to resume, is a call to sign on (CLAIMS). Of an opened
connection: whether its beginning was seen. Of faults: whether it hides no message, whether it is a
gap. Of a fact: whether its connection, known or not, belongs to this share."""


class EventArrays(NamedTuple):
    """Events, and what kernels find out about them."""

    wide: NDArray[np.int64]
    narrow: NDArray[np.int32]
    extras: NDArray[np.int32]
    """What a device reports about itself: codes of network, ISP and phone."""
    order: NDArray[np.int64]
    """The order in which events are processed."""
    pending: NDArray[np.bool_]
    """Which events wait."""
    receiver: NDArray[np.int32]
    """Who was signed on, as deliveries see it: a code or NO."""
    of_link: NDArray[np.bool_]
    """Faults and ends of connections that are links, or may be."""
    link_protocols: NDArray[np.int32]
    """Codes of the protocols whose connections are links."""
    signed: NDArray[Any]
    """Three rows: events with which a client signed on, the client, the protocol."""
