"""Notifications: requests to publish, their checks, numbers and ids.

A `Publication` is a request; with a number and an id it becomes a `Notification`. Most connections
of a protocol accept the same bytes for a notification: they share a `Form`, and a notification
is encoded once per form, however many clients subscribe. A connection that needs bytes of its
own (encrypted comet, tny, magline) has no form and encodes for itself.

A number is the position of a notification in the log (`hub.numbers`). The id is computed
from the number and back, so that an acknowledgement needs no lookup (`docs/concepts/hub.md`, Ids).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Protocol

import msgspec

from wirelake.protocols.hub_calls import (
    MAX_TOPIC_CHARACTERS,
    NOTIFICATION_ID_BYTES,
    is_client_topic,
    is_topic_name,
)
from wirelake.wire.errors import invalid

from ..config import ActiveLimits
from ..errors import HubError
from ..numbers import SECOND, SECOND_BITS
from ..store import Entry

__all__ = [
    "Form",
    "Ids",
    "Notification",
    "Publication",
    "Published",
    "check_publication",
    "check_topics",
    "id_of",
    "notification_of",
    "number_of",
]

_COUNTER: Final = SECOND - 1
_ID: Final = re.compile(rf"[mp][0-9a-f]{{{NOTIFICATION_ID_BYTES - 1}}}")
_MAX_KEY_CHARACTERS: Final = 256
"""Maximum length of an idempotency key."""
_TOPIC_RULE: Final = f"@ and up to {MAX_TOPIC_CHARACTERS - 1} letters, digits and / _ - @ $"
_MAX_TTL_S: Final = 10 * 366 * 86_400.0
"""Ten years: keeps expiry times within 64 bits of milliseconds, whatever a publisher asks for."""


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A published message."""

    # A msgspec.Struct without garbage collection is built in 72 ns, a frozen dataclass in 672 ns.

    number: int
    """Position in the log."""
    id: str
    topic: str | None
    """None when it is addressed to one client."""
    content: bytes
    type: int
    """0 to 255; defined by the application."""
    ts_ms: int
    """When it was published."""
    expires_ms: int
    """When it expires; 0 when it is not stored."""


class Form(Protocol):
    """An encoding of notifications that many connections share."""

    name: str

    def encode(self, notification: Notification) -> bytes:
        """Return the frame."""


class Publication(msgspec.Struct, frozen=True, gc=False):
    """A request to publish to a topic or to one client."""

    topic: str | None
    client: str | None
    content: bytes
    type: int = 0
    key: str = ""
    """Idempotency key: a second publish of the same publisher with it publishes nothing."""
    ttl_s: float | None = None
    """How long it is kept; None for the hub's default, 0 to not store it."""
    publisher: str = ""
    """The client that publishes; "" for the HTTP API."""

    def digest(self) -> bytes:
        """Return a hash of what is published, and to whom."""
        parts = (self.topic, self.client, self.content, self.type)
        return blake2b(msgspec.msgpack.encode(parts), digest_size=16).digest()


class Published(msgspec.Struct, frozen=True, gc=False):
    """The answer to a publish."""

    id: str
    audience: int
    """Number of clients it is for; when it is not stored, number of clients online."""


def check_publication(publication: Publication, limits: ActiveLimits, *, known_topic: bool) -> None:
    """Raise HubError for an invalid request; the name of a known topic is not checked again."""
    topic = publication.topic
    if (topic is None) == (publication.client is None):
        raise HubError("bad_arguments", "expected either topic or client")
    if topic is not None and not known_topic and not (topic[:1] in "@$" and is_topic_name(topic)):
        raise HubError("bad_arguments", invalid("topic", topic[:40], _TOPIC_RULE))
    limit = limits.max_content_bytes
    if len(publication.content) > limit:
        raise HubError("too_large", f"content is {len(publication.content)} bytes; maximum {limit}")
    if not 0 <= publication.type <= 0xFF:
        raise HubError("bad_arguments", invalid("type", publication.type, "0-255"))
    ttl_s = publication.ttl_s
    if ttl_s is not None and not 0 <= ttl_s <= _MAX_TTL_S:
        raise HubError("bad_arguments", invalid("ttl_s", ttl_s, f"0-{_MAX_TTL_S:.0f} seconds"))
    key = publication.key
    if key and (len(key) > _MAX_KEY_CHARACTERS or not _is_text(key)):
        raise HubError(
            "bad_arguments", f"id: expected text of at most {_MAX_KEY_CHARACTERS} characters"
        )


def check_topics(names: Sequence[str]) -> None:
    """Raise HubError unless a client may subscribe to all of these topics."""
    if not names:
        raise HubError("bad_arguments", "expected at least one topic")
    for name in names:
        if name.startswith("$"):
            raise HubError("forbidden", f"topic {name[:40]!r} is not available to clients")
        if not is_client_topic(name):
            raise HubError("bad_arguments", invalid("topic", name[:40], _TOPIC_RULE))


def notification_of(entry: Entry, server: int) -> Notification:
    """Return the notification that a row of the log holds."""
    return Notification(
        entry.number,
        id_of(entry.number, server=server, private=entry.topic is None),
        entry.topic,
        entry.content,
        entry.type,
        entry.ts_ms,
        entry.expires_ms,
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- numbers and ids ------------------------------------------------------------------------------


class Ids:
    """Formats the ids of one server's notifications."""

    __slots__ = ("_prefixes", "_second", "_text")

    def __init__(self, server: int):
        self._prefixes = f"m{server:02x}", f"p{server:02x}"
        self._second = -1
        self._text = ""

    def text(self, number: int, *, private: bool = False) -> str:
        """Return the same as `id_of`, faster: all ids of one second have the same end."""
        second = number >> SECOND_BITS
        if second != self._second:
            self._second, self._text = second, f"{second:08x}"
        return f"{self._prefixes[private]}{number & _COUNTER:05x}{self._text}"


def id_of(number: int, *, server: int = 0, private: bool = False) -> str:
    """Return the id of a notification: `m…` for a topic, `p…` for one client."""
    prefix = "p" if private else "m"
    return f"{prefix}{server:02x}{number & _COUNTER:05x}{number >> SECOND_BITS:08x}"


def number_of(id: str) -> int | None:  # noqa: A002 - the protocols' own word
    """Return the number in an id of this format; None for any other text."""
    if _ID.fullmatch(id) is None:
        return None
    return int(id[8:], 16) << SECOND_BITS | int(id[3:8], 16)
