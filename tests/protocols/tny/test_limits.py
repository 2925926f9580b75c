"""Options of tny sessions and links: defaults that the rules name, and values that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.protocols.sansio import SessionError
from wirelake.protocols.tny.limits import (
    LAST_NUMBER,
    PAYLOAD_LIMITS,
    RECONNECT_DELAYS_S,
    ClientOptions,
    GatewayOptions,
    RegistryLimits,
    RelayServerOptions,
    ServerOptions,
)
from wirelake.protocols.tny.transform import TransformConfig

EVERY = [ClientOptions, ServerOptions, GatewayOptions, RelayServerOptions]


def test_the_defaults_are_those_of_the_rules() -> None:
    assert PAYLOAD_LIMITS == {"seed": 1_048_576, "upstream": 65_535}
    assert LAST_NUMBER < 2**31 - 1
    assert (len(RECONNECT_DELAYS_S), sum(RECONNECT_DELAYS_S)) == (16, 84 + 15)
    for kind in EVERY:
        assert kind().dialect == "seed"
    assert ServerOptions().idle_limit_s == 180
    assert ClientOptions().idle_limit_s is None
    assert ClientOptions().ping_interval_s is None
    assert ClientOptions().request_timeout_s == 10
    assert ClientOptions().reading == TransformConfig()
    assert (GatewayOptions().heartbeat_s, GatewayOptions().idle_limit_s) == (5, 10)
    assert RelayServerOptions().idle_limit_s is None
    assert RegistryLimits().keep_s > sum(RECONNECT_DELAYS_S[:10])


@pytest.mark.parametrize("kind", EVERY)
def test_an_unknown_dialect_is_refused_with_the_names_of_the_known(kind: Any) -> None:
    for dialect in ("seed", "upstream", "auto"):
        assert kind(dialect=dialect).dialect == dialect
    with pytest.raises(SessionError) as error:
        kind(dialect="original")
    assert error.value.code == "bad_config"
    assert "seed, upstream, auto" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ClientOptions, {"request_timeout_s": 0}),
        (ClientOptions, {"ping_interval_s": -1}),
        (ClientOptions, {"max_in_flight": 0}),
        (ClientOptions, {"max_payload": 0}),
        (ServerOptions, {"idle_limit_s": float("nan")}),
        (ServerOptions, {"max_pending": -5}),
        (ServerOptions, {"max_number": LAST_NUMBER + 1}),
        (GatewayOptions, {"heartbeat_s": 0}),
        (GatewayOptions, {"idle_limit_s": 0}),
        (GatewayOptions, {"max_packet": 20}),
        (RelayServerOptions, {"max_tunnels": 0}),
        (RelayServerOptions, {"open_timeout_s": 0}),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(SessionError) as error:
        kind(**wrong)
    assert error.value.code == "bad_config"
    assert next(iter(wrong)) in str(error.value)


def test_keys_do_not_show() -> None:
    options = ClientOptions(reading=TransformConfig(security_keys=("a throw-away key",)))
    assert "throw-away" not in repr(options)
