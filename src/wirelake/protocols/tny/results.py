"""Result codes of tny messages that the protocol itself uses, and which of them end a connection.

Implements the closing rule of §6 of the tny rules: there is no close packet, a code says why. Codes
that are not listed here belong to applications; they never close.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["CLOSING", "ResultCode", "closes"]


class ResultCode(IntEnum):
    """Codes that the rules name; an application may use any other number."""

    SUCCESS = 100
    DECODE_ERROR = 153
    """The peer's bytes break a rule."""
    ENCODE_ERROR = 154
    """An answer could not be written."""
    VERIFY_FAILED = 156
    """A check code does not match: that packet is dropped, the connection goes on."""
    SERVER_ERROR = 200
    """The server cannot handle this request now."""
    NO_SUCH_PROTOCOL = 205
    """No handler has this protocol number; the answer has no body."""
    AUTH_FAILED = 210
    """The peer did not prove who it is."""
    SESSION_LOST = 216
    """The session that a client wants to resume is gone."""
    SESSION_TIMEOUT = 217
    """The session was silent for too long."""
    NO_LINK = 225
    """A gateway has no link to the service that a request is for."""


CLOSING: Final = frozenset({153, 154, 210, 216, 217, 220, 221, 224, 225, 226})
"""Codes of level ERROR: who sends one closes the connection after the write."""


def closes(code: int) -> bool:
    """Whether a server closes the connection once it has sent this code."""
    return code in CLOSING
