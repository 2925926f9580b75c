"""Sealed comet content, opened with the keys of a key log."""

from __future__ import annotations

import pytest

from wirelake.protocols.comet.layout import MessageList, Notification, Ok
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.comet.sealing import ContentSealer, HipushContent, Opener
from wirelake.wire import DecodeError

KEY = bytes(range(32))
KEYS = {"content_key": KEY.hex()}


def sealed(*contents: bytes) -> list[Notification]:
    """Notifications, sealed in this order."""
    sealer = ContentSealer(KEY)
    return [
        Notification(
            msg_type=1,
            msg_id="m",
            content=sealer.seal(content, msg_type=1, msg_id="m", ts=5),
            ts=5,
        )
        for content in contents
    ]


def test_a_notification_in_any_order() -> None:
    opener = Opener(KEYS, "s2c", "seed")
    for notification in reversed(sealed(b"hello", b"hello")):
        assert opener.open(notification, b"") == {"content": "hello"}


def test_content_that_is_no_text_stays_bytes() -> None:
    (notification,) = sealed(b"\xff")
    assert Opener(KEYS, "s2c", "seed").open(notification, b"") == {"content": b"\xff"}


def test_one_of_a_list_may_fail() -> None:
    good, bad = sealed(b"one", b"two")
    messages = (good, Notification(msg_type=2, msg_id="m", content=bad.content, ts=5))
    opened = Opener(KEYS, "s2c", "seed").open(MessageList(messages=messages), b"")
    assert opened == {"contents": ["one", {"error": "bad_record"}]}


def test_a_wrong_key() -> None:
    (notification,) = sealed(b"hello")
    with pytest.raises(DecodeError, match="bad_record"):
        Opener({"content_key": "00" * 32}, "s2c", "seed").open(notification, b"")


def test_the_originals_cipher() -> None:
    content = HipushContent(b"12345678", legacy_hipush=True).seal(b"hello")
    notification = Notification(msg_type=1, msg_id="m", content=content)
    opener = Opener({"des_key": b"12345678".hex()}, "s2c", "hipush")
    assert opener.open(notification, b"") == {"content": "hello"}


def test_nothing_to_open() -> None:
    (notification,) = sealed(b"hello")
    assert Opener({}, "s2c", "seed").open(notification, b"") == {}
    assert Opener(KEYS, "s2c", "seed").open(Ok(), b"") == {}
    assert COMET.opener is Opener
