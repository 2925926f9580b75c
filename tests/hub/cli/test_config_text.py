"""The configuration that `wirelake hub init` writes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from wirelake.hub.config import (
    Config,
    ConfigError,
    Limits,
    config_text,
    load_config,
    make_config,
    meanings,
)
from wirelake.protocols.tny.binding import Backend, GatewaySettings
from wirelake.protocols.tny.protocol import RELAY


def test_as_it_is_written_it_changes_nothing() -> None:
    assert make_config(tomllib.loads(config_text())) == Config()


def test_every_key_has_its_default_and_a_description() -> None:
    text = re.sub(r"(?m)^#(?=[a-z_0-9]+ = )", "", config_text())
    written_tables = tomllib.loads(text)
    config = Config()
    assert {"esnp", "tny", "relay", "magline", "comet", "admin", "limits"} < set(written_tables)
    for name, written in written_tables.items():
        settings = config.table(name)
        fields = msgspec.structs.fields(type(settings))
        assert set(written) == {field.name for field in fields}
        assert set(meanings(type(settings))) >= set(written)
        for field in fields:
            if field.name not in ("tls", "backends", "clients", "issuers", "routes"):
                default = getattr(settings, field.name)
                shown = list(default) if isinstance(default, tuple) else default
                assert shown == written[field.name]


def test_what_holds_tables_is_an_example_that_works() -> None:
    text = re.sub(r"(?m)^#(?=(tls|backends|clients|routes) = )", "", config_text())
    config = make_config(tomllib.loads(text))
    tls = config.listeners["comet"].tls
    assert tls is not None
    assert tls.certificate == "cert.pem"
    assert config.table("gateway").backends[0].port == RELAY.port
    assert config.table("esnp").routes[0].service == "billing"
    assert config.rights.clients[0].ids == ("sensor-*",)


def test_lines_are_short() -> None:
    assert max(map(len, config_text().splitlines())) <= 100


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    path.write_text("[comet]\nprt = 1\n")
    with pytest.raises(
        ConfigError, match=r": \[comet\]: unknown key 'prt'; expected one of enabled, host, port"
    ):
        load_config(path)


@pytest.mark.parametrize("table", ["esnp", "tny", "relay", "magline", "comet", "admin"])
@pytest.mark.parametrize("port", [-4, 65_536, 70_000])
def test_invalid_ports_are_refused(table: str, port: int) -> None:
    expected = rf"^{table}\.port: invalid port {port}; expected 0-65535$"
    with pytest.raises(ConfigError, match=expected):
        make_config({table: {"port": port}})


@pytest.mark.parametrize("limit", [field.name for field in msgspec.structs.fields(Limits)])
@pytest.mark.parametrize("value", [-5, 10**30])
def test_every_limit_has_bounds(limit: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"^limits\.{limit}: invalid value .*; expected "):
        make_config({"limits": {limit: value}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[limits]\ncalls = 0", "limits.calls: invalid value 0; expected 1-2147483647"),
        (
            "[limits]\nauth_s = inf",
            "limits.auth_s: invalid value inf; expected more than 0, at most 1000000000",
        ),
        ('[limits]\ncalls = "x"', "limits.calls: expected an integer, got a string"),
        ("[limits]\ncalls = true", "limits.calls: expected an integer, got a boolean"),
        ("[limits]\nauth_s = []", "limits.auth_s: expected a number, got an array"),
        ("[tny]\nidle_s = -1", "tny.idle_s: invalid value -1; expected 0-1000000000"),
        ("[esnp]\nidle_s = nan", "esnp.idle_s: invalid value nan; expected 0-1000000000"),
        ("[tny]\nencrypt = true", "tny.encrypt: needs at least one key in tny.security_keys"),
        ("[store]\nserver = 256", "store.server: invalid value 256; expected 0-255"),
        (
            "[record]\nrotate_bytes = 2026-01-01",
            "record.rotate_bytes: expected an integer, got a date or time",
        ),
        (
            '[comet]\ndialect = "x"',
            "comet.dialect: invalid value 'x'; expected one of hipush, seed",
        ),
        ("[comet]\nhost = 1", "comet.host: expected a string or an array, got an integer"),
        ("[comet]\nhost = [1]", "comet.host[0]: expected a string, got an integer"),
        ("[comet]\ntls = 3", "comet.tls: expected a table, got an integer"),
        ('[comet.tls]\nkey = "x"', "[comet.tls]: missing key 'certificate'"),
        ("comet = 3", "comet: expected a table, got an integer"),
        (
            '[[gateway.backends]]\nhost = "x"\nport = 0',
            "gateway.backends[0].port: invalid port 0; expected 1-65535",
        ),
    ],
)
def test_errors_name_the_key_and_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(tomllib.loads(text))
    assert str(caught.value) == message


def test_configurations_made_in_python_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"limits\.calls: invalid value 0"):
        Config(limits=Limits(calls=0))
    with pytest.raises(ConfigError, match=r"comet\.port: invalid port 70000"):
        Config().with_listener("comet", port=70_000)
    backend = Backend(host="h", port=70_000)
    with pytest.raises(ConfigError, match=r"gateway\.backends\[0\]\.port: invalid port 70000"):
        Config(protocol_tables={"gateway": GatewaySettings(backends=(backend,))})


def test_unknown_tables_are_named_with_the_valid_ones(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    path.write_text("[comte]\nport = 1\n")
    with pytest.raises(ConfigError, match=r"unknown table .comte.; expected one of esnp, tny"):
        load_config(path)
