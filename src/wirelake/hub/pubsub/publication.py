"""What a publisher asks for, and whether it makes sense."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from wirelake.protocols.comet.limits import content_limit

from ..errors import HubError
from ..limits import Limits

__all__ = [
    "Publication",
    "Published",
    "check_publication",
    "check_topics",
    "is_topic_name",
    "most_content",
]

_MOST_CHARACTERS: Final = 256
"""Of a topic or a key: the original's limit for topics."""
_ASCII: Final = re.compile(r"[A-Za-z0-9/_\-@$]{1,256}")
_PUNCTUATION: Final = frozenset("/_-@$")
_FITS: Final = content_limit(16, sealed=True, dialect="hipush")
"""Bytes that fit any client's frame, whatever the configuration allows."""
_LONGEST_S: Final = 10 * 366 * 86_400.0


class Publication(msgspec.Struct, frozen=True, gc=False):
    """Something to publish, to a topic or to one client."""

    topic: str | None
    client: str | None
    content: bytes
    type: int = 0
    key: str = ""
    """The publisher's own word for it; with the same key nothing is published again."""
    ttl_s: float | None = None
    """How long it is kept; None takes the hub's default; with 0 it is not stored at all."""


class Published(msgspec.Struct, frozen=True, gc=False):
    """What became of it."""

    id: str
    audience: int
    """Clients that it is for; when it is not stored, those that are online."""


def is_topic_name(text: str) -> bool:
    """Whether somebody may publish to this (comet's rules; any character may come first)."""
    if text.isascii():
        return _ASCII.fullmatch(text) is not None
    return len(text) <= _MOST_CHARACTERS and all(
        c.isalpha() or c.isdecimal() or c in _PUNCTUATION for c in text
    )


def most_content(limits: Limits) -> int:
    """Bytes of content that are taken: no more than fit the frames of every client."""
    return min(limits.content_bytes, _FITS)


def check_publication(publication: Publication, limits: Limits, *, known: bool) -> None:
    """Raises HubError; `known` when the topic has subscribers, so that its name is right."""
    topic = publication.topic
    if (topic is None) == (publication.client is None):
        raise HubError("bad_arguments", "wanted a topic or a client, and not both")
    if topic is not None and not known and not is_topic_name(topic):
        raise HubError("bad_arguments", f"{topic[:40]!r} is not a topic")
    limit = most_content(limits)
    if len(publication.content) > limit:
        raise HubError("too_large", f"content: {len(publication.content)} bytes, at most {limit}")
    if not 0 <= publication.type <= 0xFF:
        raise HubError("bad_arguments", "type: wanted 0 to 255")
    ttl_s = publication.ttl_s
    if ttl_s is not None and not 0 <= ttl_s <= _LONGEST_S:
        raise HubError("bad_arguments", "ttl_s: wanted 0, or seconds up to ten years")
    key = publication.key
    if key and (len(key) > _MOST_CHARACTERS or not _is_text(key)):
        raise HubError("bad_arguments", f"id: wanted text of at most {_MOST_CHARACTERS} characters")


def check_topics(names: Sequence[str]) -> None:
    """Raises HubError unless a client may have all of these topics."""
    if not names:
        raise HubError("bad_arguments", "wanted at least one topic")
    for name in names:
        if not is_topic_name(name):
            raise HubError("bad_arguments", f"{name[:40]!r} is not a topic")
        if name.startswith("$"):
            raise HubError("forbidden", f"{name[:40]!r} is not for clients")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
