"""Options of magline connections: what they are by default, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.protocols.magline.limits import (
    HALF_OPEN_PER_ADDRESS,
    ClientOptions,
    ResumptionOptions,
    ServerOptions,
)
from wirelake.wire.errors import EncodeError


def test_defaults_are_those_of_the_rules() -> None:
    server, client, resumption = ServerOptions(), ClientOptions(), ResumptionOptions()
    assert (server.idle_limit_s, client.heartbeat_s, client.pon_timeout_s) == (90, 30, 10)
    assert server.handshake_deadline_s == client.handshake_deadline_s == 10
    assert server.max_frame == client.max_frame == 1 << 20
    assert server.control_auth == client.control_auth == "prefer"
    assert server.rekey_seq == client.rekey_seq == 0xFFFF_0000
    assert server.rekey_bytes == client.rekey_bytes == 1 << 38
    assert server.rekey_after_s == client.rekey_after_s == 24 * 3600
    assert (resumption.ttl_s, resumption.lifetime_s) == (600, 24 * 3600)
    assert resumption.max_queued == 64
    assert HALF_OPEN_PER_ADDRESS == 32


BOTH = [
    {"control_auth": "never"},
    {"max_frame": 511},
    {"max_frame": 1 << 32},
    {"max_requests": 0},
    {"handshake_deadline_s": 0},
    {"fin_wait_s": -1},
    {"rekey_seq": 15},
    {"rekey_seq": 0xFFFF_0001},
    {"rekey_bytes": 1 << 20},
    {"rekey_bytes": (1 << 38) + 1},
    {"rekey_after_s": 0},
    {"rekey_after_s": 24 * 3600 + 1},
]


@pytest.mark.parametrize("wrong", BOTH, ids=str)
def test_bad_options_of_both_are_refused_by_name(wrong: dict[str, Any]) -> None:
    for options in (ServerOptions, ClientOptions):
        with pytest.raises(EncodeError, match=next(iter(wrong))) as caught:
            options(**wrong)
        assert caught.value.code == "bad_config"


@pytest.mark.parametrize(
    "wrong",
    [
        {"idle_limit_s": 0},
        {"order_deadline_s": 0},
        {"order_max_frame": 511},
        {"order_max_frame": 1 << 32},
        {"order_cmds": (0,)},
        {"order_cmds": (1, 1 << 32)},
    ],
    ids=str,
)
def test_bad_options_of_a_server(wrong: dict[str, Any]) -> None:
    with pytest.raises(EncodeError, match=next(iter(wrong))):
        ServerOptions(**wrong)


@pytest.mark.parametrize("name", ["heartbeat_s", "pon_timeout_s", "request_timeout_s"])
def test_bad_options_of_a_client(name: str) -> None:
    with pytest.raises(EncodeError, match=name):
        ClientOptions(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttl_s": 0},
        {"lifetime_s": 24 * 3600 + 1},
        {"max_sessions": 0},
        {"max_queued": 0},
        {"max_queued_bytes": 0},
    ],
    ids=str,
)
def test_bad_options_of_a_store(wrong: dict[str, Any]) -> None:
    with pytest.raises(EncodeError, match=next(iter(wrong))):
        ResumptionOptions(**wrong)
