"""What ESNP's form writes is what the codec writes."""

from __future__ import annotations

import contextlib
import random

from wirelake.hub.listeners.esnp import EsnpForm
from wirelake.hub.pubsub.notifications import Notification, id_of
from wirelake.protocols.esnp.codec_seed import encode_message
from wirelake.protocols.esnp.layout import Address, AddressKind, Flag, FlagType, Message
from wirelake.protocols.esnp.values import data_rows

HEAD = (
    Flag(value=FlagType.EVENT),
    Address(kind=AddressKind.SERVICE, value="hub"),
    Address(kind=AddressKind.OP, value="notify"),
)


def by_codec(notification: Notification) -> bytes:
    content: str | bytes = notification.content
    with contextlib.suppress(UnicodeDecodeError):
        content = notification.content.decode()
    values = {
        "id": notification.id,
        "topic": notification.topic,
        "content": content,
        "ts": notification.ts_ms,
        "type": notification.type or None,
    }
    named = {name: value for name, value in values.items() if value is not None}
    return encode_message(Message(rows=(*HEAD, *data_rows(named))))


def test_events_are_the_codecs() -> None:
    form, rng = EsnpForm(), random.Random(7)
    for number in range(3_000):
        size = rng.choice((0, 1, 64, rng.randrange(5_000)))
        content = rng.choice((b"x" * size, rng.randbytes(size), "ü".encode() * size))
        notification = Notification(
            number,
            id_of(number),
            rng.choice((None, "news", "wetter/süd")),
            content,
            rng.choice((0, 0, 7, 255)),
            rng.choice((5, 1_700_000_000_000 + number // 10)),
            0,
        )
        assert form.encode(notification) == by_codec(notification)
