"""What comet's form writes is what the codec writes."""

from __future__ import annotations

import random

import pytest

from wirelake.hub.listeners.comet import CometForm, message_of
from wirelake.hub.pubsub.notifications import Notification, id_of
from wirelake.protocols.comet.limits import Dialect
from wirelake.protocols.comet.protocol import PROTOCOL


@pytest.mark.parametrize("dialect", ["seed", "hipush"])
def test_frames_are_the_codecs(dialect: Dialect) -> None:
    form, encode = CometForm(dialect), PROTOCOL.codec(dialect).encode_frame
    rng = random.Random(7)
    for number in range(3_000):
        size = rng.choice((0, 1, 64, rng.randrange(5_000)))
        notification = Notification(
            number,
            rng.choice((id_of(number), "", "e", "ä" * 5)),
            "news",
            rng.randbytes(size),
            rng.choice((0, 0, 7, 255)),
            rng.choice((0, 5, 1_700_000_000_000 + number // 10)),
            0,
        )
        assert form.encode(notification) == encode(message_of(notification))
