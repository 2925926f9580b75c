"""Limits and options of comet connections; each default with its reason.

Rule numbers refer to `docs/decisions/comet.md`. Options that cannot work raise `SessionError`
with code `bad_config` when they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from ..sansio import SessionError
from .arguments import is_id
from .layout import CONTENT_OVERHEAD, Notification

__all__ = [
    "MAX_CONTENT",
    "SEND_COUNT",
    "SEND_FRAME",
    "ClientOptions",
    "Dialect",
    "ServerOptions",
    "content_limit",
    "notification_size",
    "page",
    "topics_fit",
]

Dialect = Literal["seed", "hipush"]
"""Which layout a notification has (rule 6)."""

SEND_FRAME: Final = 32_767
"""Bytes after the length that we send: readers that take the length as signed still read it
(rule 2). We read up to 65535."""
SEND_COUNT: Final = 127
"""Items in a list that we send: readers that take the count as signed still read it (rule 2)."""
MAX_CONTENT: Final = 16_384
"""Bytes of content that a publisher may give by default: half a frame, so that a list can always
carry one notification with a long id (rule 8)."""

_DES_BLOCK: Final = 8
_PINNED_BYTES: Final = 32


def _bad(name: str, why: str) -> SessionError:
    return SessionError("bad_config", f"{name}: {why}")


def _one_of(name: str, value: object, words: Any) -> None:
    if value not in get_args(words):
        raise _bad(name, f"wanted one of {', '.join(get_args(words))}")


def _above_zero(options: msgspec.Struct, *names: str) -> None:
    for name in names:
        if not getattr(options, name) > 0:
            raise _bad(name, "wanted more than 0")


_PushAfter = Literal["auth", "list"]
_OnDuplicate = Literal["replace", "reject"]


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server treats its connections."""

    dialect: Dialect = "seed"
    idle_limit_s: float = 120.0
    """The original's read timeout: three heartbeats of a default client (rule 21). Whole frames
    count, so that a peer cannot stay by sending a byte now and then."""
    auth_deadline_s: float = 10.0
    """A phone on a bad network signs on within seconds; who does not holds a slot (rule 15)."""
    auth_attempts: int = 3
    """Enough for a stale token and its renewal, too few for guessing (rule 15)."""
    push_after: _PushAfter = "auth"
    """`auth` as the document has it; `list` waits for get_message_list, like the original (rule
    18)."""
    require_encryption: bool = False
    """Refuses get_message_list, and pushes nothing, before a key exchange (rule 20)."""
    on_duplicate: _OnDuplicate = "replace"
    """A client that is online elsewhere: the new connection takes over, because a phone that has
    changed networks must not wait for a timeout; `reject` is the original's error 2 (rule 14)."""
    tell_unknown_clients: bool = False
    """Answers error 1 where no such client exists. Off, error 0 stands for both, so that nobody
    can find out which ids exist (section 7)."""
    max_pending: int = 64
    """Commands that wait for their answer; a phone has one or two under way."""
    max_pending_bytes: int = 131_074
    """Bytes of these commands: two frames of the largest size, far more than a phone has to say."""
    valid_id: Callable[[str], bool] = is_id
    """Which client ids are taken; by default any of 1 to 256 bytes (rule 11)."""
    legacy_hipush: bool = False
    """Offer the original's RSA-512 and DES, which protect nothing; in dialect hipush alone."""

    def __post_init__(self) -> None:
        _one_of("dialect", self.dialect, Dialect)
        _one_of("push_after", self.push_after, _PushAfter)
        _one_of("on_duplicate", self.on_duplicate, _OnDuplicate)
        _above_zero(self, "idle_limit_s", "auth_deadline_s", "auth_attempts")
        _above_zero(self, "max_pending", "max_pending_bytes")
        if self.legacy_hipush and self.dialect != "hipush":
            raise _bad("legacy_hipush", "wanted dialect hipush with it")


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a client treats its connection."""

    dialect: Dialect | Literal["auto"] = "seed"
    """`auto` tells the layouts of notifications apart as they come (rule 6)."""
    auto_prefers: Dialect = "seed"
    """What `auto` takes a list for that fits both layouts, until the peer has shown its own."""
    heartbeat_s: float = 40.0
    """A third of the server's idle limit: two may be lost (rule 21)."""
    reply_timeout_s: float = 30.0
    """A reply that takes longer will not come: the connection is half dead."""
    max_pending: int = 64
    """Commands under way; as many as a server queues."""
    one_at_a_time: bool | None = None
    """Send a command when the one before is answered: for the original, whose replies can overtake
    each other (rule 17). None does so unless the dialect is seed."""
    allow_plaintext: bool = False
    """Accept an empty, unknown or weak key and read content in clear (section 7)."""
    pinned: bytes | None = None
    """The server's static X25519 key; only that suite is then accepted (section 7)."""
    legacy_hipush: bool = False
    """Accept the original's RSA-512 and DES, which protect nothing; not in dialect seed."""

    def __post_init__(self) -> None:
        if self.dialect != "auto":
            _one_of("dialect", self.dialect, Dialect)
        _one_of("auto_prefers", self.auto_prefers, Dialect)
        _above_zero(self, "heartbeat_s", "reply_timeout_s", "max_pending")
        if self.legacy_hipush and self.dialect == "seed":
            raise _bad("legacy_hipush", "wanted dialect hipush or auto with it")
        if self.pinned is None:
            return
        if len(self.pinned) != _PINNED_BYTES:
            raise _bad("pinned", f"wanted {_PINNED_BYTES} bytes")
        if self.allow_plaintext or self.legacy_hipush:
            raise _bad("pinned", "allow_plaintext and legacy_hipush would get past the pin")

    @property
    def waits(self) -> bool:
        """Whether one command is under way at a time."""
        return self.dialect != "seed" if self.one_at_a_time is None else self.one_at_a_time


# -- what fits a frame -----------------------------------------------------------------------


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _sealed_size(size: int, sealed: bool, des: bool) -> int:
    """Bytes of content after sealing."""
    if des:
        return size + _DES_BLOCK - size % _DES_BLOCK
    return size + CONTENT_OVERHEAD if sealed else size


def notification_size(
    notification: Notification, *, sealed: bool, dialect: Dialect = "seed", des: bool = False
) -> int:
    """Bytes of one notification in a frame; `des` for the original's way of sealing."""
    size = (
        13 + _utf8_size(notification.msg_id) + _sealed_size(len(notification.content), sealed, des)
    )
    return size + 2 + _utf8_size(notification.job_id) if dialect == "hipush" else size


def content_limit(
    id_bytes: int,
    *,
    sealed: bool,
    listed: bool = True,
    dialect: Dialect = "seed",
    job_id_bytes: int = 0,
    des: bool = False,
) -> int:
    """Bytes of content that fit one frame beside ids of those lengths (rule 8)."""
    fixed = 1 + 1 + 2 + id_bytes + 2 + 8  # type, msg_type, id, content length, ts
    fixed += 2 + job_id_bytes if dialect == "hipush" else 0
    room = SEND_FRAME - fixed - (1 if listed else 0)
    if des:
        return room // _DES_BLOCK * _DES_BLOCK - 1
    return room - (CONTENT_OVERHEAD if sealed else 0)


def page(
    waiting: Sequence[Notification], *, sealed: bool, dialect: Dialect = "seed", des: bool = False
) -> tuple[Notification, ...]:
    """The oldest notifications that fit one message_list, at least one if any waits (rule 7)."""
    taken: list[Notification] = []
    size = 2  # type and count
    for notification in waiting[:SEND_COUNT]:
        size += notification_size(notification, sealed=sealed, dialect=dialect, des=des)
        if taken and size > SEND_FRAME:
            break
        taken.append(notification)
    return tuple(taken)


def topics_fit(topics: Sequence[str]) -> bool:
    """Return whether a client may have these topics: its topic_list must fit one frame (rule 9)."""
    size = 2 + sum(2 + _utf8_size(topic) for topic in topics)
    return len(topics) <= SEND_COUNT and size <= SEND_FRAME
