"""Options of ESNP connections: what cannot work is refused, by name."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.protocols.esnp.limits import UNAUTHENTICATED_LIMIT, SessionOptions
from wirelake.protocols.sansio import SessionError


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"revision": "rows"}, "revision: expected one of frames, lines"),
        ({"dialect": "auto"}, "dialect: expected one of seed, go"),
        ({"message_limit": 0}, "message_limit: expected more than 0"),
        ({"call_timeout_s": 0}, "call_timeout_s: expected more than 0"),
        ({"max_calls": 0}, "max_calls: expected more than 0"),
        ({"max_requests": 0}, "max_requests: expected more than 0"),
        ({"max_request_bytes": 0}, "max_request_bytes: expected more than 0"),
        ({"max_parts": 0}, "max_parts: expected more than 0"),
        ({"max_part_bytes": -1}, "max_part_bytes: expected more than 0"),
        ({"part_timeout_s": 0}, "part_timeout_s: expected more than 0"),
        ({"idle_limit_s": 0}, "idle_limit_s: expected more than 0, or None"),
        ({"require_major": 256}, "require_major: expected 0 to 255"),
        ({"legacy_rows": True}, "legacy_rows: requires revision frames"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], why: str) -> None:
    with pytest.raises(SessionError, match=why) as caught:
        SessionOptions(**options)
    assert caught.value.code == "bad_config"


def test_the_originals_figures() -> None:
    options = SessionOptions()
    assert options.message_limit == 10 * 1024 * 1024
    assert options.call_timeout_s == 5
    assert options.idle_limit_s is None
    assert UNAUTHENTICATED_LIMIT == 4096
    assert options.max_request_bytes > options.message_limit
    assert options.max_part_bytes > options.message_limit
