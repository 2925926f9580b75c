"""Limits and options of comet connections; each default with its reason.

Rule numbers refer to `docs/decisions/comet.md`. Invalid options raise `SessionError` with code
`bad_config` when they are created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from ..sansio import SessionError
from . import codec_seed
from .arguments import is_id
from .layout import CONTENT_OVERHEAD, Dialect, Notification, Ok, Reply, TopicList

__all__ = [
    "MAX_FRAME",
    "SEND_COUNT",
    "SEND_FRAME",
    "ClientOptions",
    "Dialect",
    "OnDuplicate",
    "PushAfter",
    "ServerOptions",
    "content_limit",
    "notification_size",
    "page",
    "topics_fit",
]

MAX_FRAME: Final = 65_535
"""Bytes after the length that we read (rule 2)."""
SEND_FRAME: Final = 32_767
"""Bytes after the length that we send: peers that read the length as signed still accept it (rule
2)."""
SEND_COUNT: Final = 127
"""Items in a list that we send: peers that read the count as signed still accept it (rule 2)."""

_DES_BLOCK: Final = 8
_PINNED_BYTES: Final = 32


def _bad(name: str, why: str) -> SessionError:
    return SessionError("bad_config", f"{name}: {why}")


def _one_of(name: str, value: object, words: Any) -> None:
    if value not in get_args(words):
        raise _bad(name, f"expected one of {', '.join(get_args(words))}")


def _above_zero(options: msgspec.Struct, *names: str) -> None:
    for name in names:
        if not getattr(options, name) > 0:
            raise _bad(name, "expected more than 0")


PushAfter = Literal["auth", "list"]
"""When pushes begin (rule 18)."""
OnDuplicate = Literal["replace", "reject"]
"""What happens when a client signs on a second time (rule 14)."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a server."""

    dialect: Dialect = "seed"
    idle_limit_s: float = 120.0
    """The original's read timeout: three heartbeats of a default client (rule 21). Only whole
    frames count, so that a peer cannot stay by sending single bytes."""
    auth_deadline_s: float = 10.0
    """A phone on a bad network signs on within seconds; others occupy a slot (rule 15)."""
    auth_attempts: int = 3
    """Enough for a stale token and its renewal, too few for guessing (rule 15)."""
    push_after: PushAfter = "auth"
    """`auth` as the document has it; `list` waits for get_message_list, like the original (rule
    18)."""
    require_encryption: bool = False
    """Refuses get_message_list, and pushes nothing, before a key exchange (rule 20)."""
    on_duplicate: OnDuplicate = "replace"
    """What happens when a client is online elsewhere. `replace`: the new connection wins, because a
    phone that has changed networks must not wait for a timeout; `reject` is the original's error 2
    (rule 14)."""
    tell_unknown_clients: bool = False
    """Answer error 1 for unknown clients. Off, error 0 covers both cases, so that nobody can find
    out which ids exist (section 7)."""
    max_pending: int = 64
    """Commands without an answer; a phone has one or two in flight."""
    max_pending_bytes: int = 131_074
    """Bytes of these commands: two frames of the largest size, far more than a phone sends."""
    valid_id: Callable[[str], bool] = is_id
    """Validator of client ids; by default any of 1 to 256 bytes (rule 11)."""
    legacy_hipush: bool = False
    """Offer the original's RSA-512 and DES, which protect nothing; in dialect hipush only."""

    def __post_init__(self) -> None:
        _one_of("dialect", self.dialect, Dialect)
        _one_of("push_after", self.push_after, PushAfter)
        _one_of("on_duplicate", self.on_duplicate, OnDuplicate)
        _above_zero(self, "idle_limit_s", "auth_deadline_s", "auth_attempts")
        _above_zero(self, "max_pending", "max_pending_bytes")
        if self.legacy_hipush and self.dialect != "hipush":
            raise _bad("legacy_hipush", "requires dialect hipush")


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a client."""

    dialect: Dialect | Literal["auto"] = "seed"
    """`auto` detects the layout of notifications as they come (rule 6)."""
    auto_prefers: Dialect = "seed"
    """The dialect that `auto` assumes for a list that fits both, until the peer's is known."""
    heartbeat_s: float = 40.0
    """A third of the server's idle limit: two may be lost (rule 21)."""
    reply_timeout_s: float = 30.0
    """A later reply will not come: the connection is half-open."""
    max_pending: int = 64
    """Commands in flight; the number that a server queues."""
    one_at_a_time: bool | None = None
    """Send a command when the one before is answered: for the original, whose replies can overtake
    each other (rule 17). None: unless the dialect is seed."""
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
            raise _bad("legacy_hipush", "requires dialect hipush or auto")
        if self.pinned is None:
            return
        if len(self.pinned) != _PINNED_BYTES:
            raise _bad("pinned", f"expected {_PINNED_BYTES} bytes")
        if self.allow_plaintext or self.legacy_hipush:
            raise _bad("pinned", "conflicts with allow_plaintext and legacy_hipush")

    @property
    def waits(self) -> bool:
        """Whether only one command is in flight at a time."""
        return self.dialect != "seed" if self.one_at_a_time is None else self.one_at_a_time


# -- what fits a frame -----------------------------------------------------------------------------
#
# Sizes are computed before anything is encoded or sealed: sealing uses up a counter, and a list
# that turns out too large would have to be sealed again under new ones.


def _size(reply: Reply) -> int:
    """Return the bytes of a reply after the length, in dialect seed."""
    return len(codec_seed.encode_frame(reply)) - _LENGTH_BYTES


_LENGTH_BYTES: Final = 2
_TYPE: Final = _size(Ok())
_EMPTY_LIST: Final = _size(TopicList(topics=()))
_EMPTY_TEXT: Final = _size(TopicList(topics=("",))) - _EMPTY_LIST
_EMPTY_NOTIFICATION: Final = _size(Notification(msg_type=0, msg_id="")) - _TYPE


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _sealed_size(size: int, sealed: bool, des: bool) -> int:
    """Return the bytes of content after sealing."""
    if des:
        return size + _DES_BLOCK - size % _DES_BLOCK
    return size + CONTENT_OVERHEAD if sealed else size


def notification_size(
    notification: Notification, *, sealed: bool, dialect: Dialect = "seed", des: bool = False
) -> int:
    """Return the bytes of one notification in a frame; `des`: sealed as the original does."""
    content = _sealed_size(len(notification.content), sealed, des)
    size = _EMPTY_NOTIFICATION + _utf8_size(notification.msg_id) + content
    return size + _EMPTY_TEXT + _utf8_size(notification.job_id) if dialect == "hipush" else size


def content_limit(
    id_bytes: int,
    *,
    sealed: bool,
    listed: bool = True,
    dialect: Dialect = "seed",
    job_id_bytes: int = 0,
    des: bool = False,
) -> int:
    """Return the bytes of content that fit one frame beside ids of those lengths (rule 8)."""
    fixed = (_EMPTY_LIST if listed else _TYPE) + _EMPTY_NOTIFICATION + id_bytes
    fixed += _EMPTY_TEXT + job_id_bytes if dialect == "hipush" else 0
    room = SEND_FRAME - fixed
    if des:
        return room // _DES_BLOCK * _DES_BLOCK - 1
    return room - (CONTENT_OVERHEAD if sealed else 0)


def page(
    waiting: Sequence[Notification], *, sealed: bool, dialect: Dialect = "seed", des: bool = False
) -> tuple[Notification, ...]:
    """Return the oldest notifications that fit one message_list, at least one (rule 7)."""
    taken: list[Notification] = []
    size = _EMPTY_LIST
    # At least one, even over the limit: publishing refuses content that could not be sent alone, so
    # this never happens for notifications of the hub, and a list of none would mean "no more".
    for notification in waiting[:SEND_COUNT]:
        size += notification_size(notification, sealed=sealed, dialect=dialect, des=des)
        if taken and size > SEND_FRAME:
            break
        taken.append(notification)
    return tuple(taken)


def topics_fit(topics: Sequence[str]) -> bool:
    """Return whether the topic_list of these topics fits one frame (rule 9)."""
    size = _EMPTY_LIST + sum(_EMPTY_TEXT + _utf8_size(topic) for topic in topics)
    return len(topics) <= SEND_COUNT and size <= SEND_FRAME
