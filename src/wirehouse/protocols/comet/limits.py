"""Limits and options of comet connections; each default with its reason.

Rule numbers refer to `docs/decisions/comet.md`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .layout import Notification
from .sealing import CONTENT_OVERHEAD

__all__ = [
    "MAX_CONTENT",
    "SEND_COUNT",
    "SEND_FRAME",
    "ClientOptions",
    "ServerOptions",
    "content_limit",
    "page",
    "topics_fit",
]

SEND_FRAME = 32_767
"""Bytes after the length that we send: readers that take the length as signed still read it
(rule 2). We read up to 65535."""
SEND_COUNT = 127
"""Items in a list that we send: readers that take the count as signed still read it (rule 2)."""
MAX_CONTENT = 16_384
"""Bytes of content that a publisher may give by default: half a frame, so that a list can always
carry one notification with a long id (rule 8)."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server treats its connections."""

    dialect: Literal["seed", "hipush"] = "seed"
    idle_limit_s: float = 120.0
    """The original's read timeout: three heartbeats of a default client (rule 21)."""
    auth_deadline_s: float = 10.0
    """A phone on a bad network signs on within seconds; who does not holds a slot (rule 15)."""
    auth_attempts: int = 3
    """Enough for a stale token and its renewal, too few for guessing (rule 15)."""
    push_after: Literal["auth", "list"] = "auth"
    """`auth` as the document has it; `list` waits for get_message_list, like the original (rule
    18)."""
    require_encryption: bool = False
    """Refuses get_message_list, and pushes nothing, before a key exchange (rule 20)."""
    max_pending: int = 64
    """Commands that wait for their answer; a phone has one or two under way."""


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a client treats its connection."""

    dialect: Literal["seed", "hipush"] = "seed"
    heartbeat_s: float = 40.0
    """A third of the server's idle limit: two may be lost (rule 21)."""
    reply_timeout_s: float = 30.0
    """A reply that takes longer will not come: the connection is half dead."""
    max_pending: int = 64
    """Commands under way; as many as a server queues."""
    one_at_a_time: bool = False
    """For the original, whose replies can overtake each other (rule 17)."""
    allow_plaintext: bool = False
    """Accept an empty, unknown or weak key and read content in clear (section 7)."""
    pinned: bytes | None = None
    """The server's static X25519 key; only that suite is then accepted (section 7)."""
    legacy_hipush: bool = False
    """Accept the original's RSA-512 and DES, which protect nothing."""


def content_limit(id_bytes: int, *, sealed: bool, listed: bool = True) -> int:
    """Bytes of content that fit one frame beside an id of that length (rule 8)."""
    fixed = 1 + 1 + 2 + id_bytes + 2 + 8  # type, msg_type, id, content length, ts
    return SEND_FRAME - fixed - (1 if listed else 0) - (CONTENT_OVERHEAD if sealed else 0)


def page(
    waiting: tuple[Notification, ...] | list[Notification], *, sealed: bool
) -> tuple[Notification, ...]:
    """The oldest notifications that fit one message_list, at least one if any waits (rule 7)."""
    taken: list[Notification] = []
    size = 2  # type and count
    for notification in waiting[:SEND_COUNT]:
        size += 13 + len(notification.msg_id.encode("utf-8", "surrogateescape"))
        size += len(notification.content) + (CONTENT_OVERHEAD if sealed else 0)
        if taken and size > SEND_FRAME:
            break
        taken.append(notification)
    return tuple(taken)


def topics_fit(topics: tuple[str, ...] | list[str]) -> bool:
    """Whether a client may have these topics: its topic_list must fit one frame (rule 9)."""
    size = 2 + sum(2 + len(topic.encode("utf-8", "surrogateescape")) for topic in topics)
    return len(topics) <= SEND_COUNT and size <= SEND_FRAME
