"""The configuration that `wirelake hub init` writes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from wirelake.hub.config import Config, ConfigError, config_text, load_config, make_config, meanings


def test_as_it_is_written_it_changes_nothing() -> None:
    assert make_config(tomllib.loads(config_text())) == Config()


def test_every_key_stands_there_with_its_default_and_a_meaning() -> None:
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
            if field.name not in ("tls", "backends"):
                default = getattr(settings, field.name)
                shown = list(default) if isinstance(default, tuple) else default
                assert shown == written[field.name]


def test_what_holds_tables_is_an_example_that_works() -> None:
    text = re.sub(r"(?m)^#(?=(tls|backends) = )", "", config_text())
    config = make_config(tomllib.loads(text))
    tls = config.listeners["comet"].tls
    assert tls is not None
    assert tls.certificate == "cert.pem"
    assert config.gateway.backends[0].port == 9611


def test_lines_are_short() -> None:
    assert max(map(len, config_text().splitlines())) <= 100


def test_unknown_keys_are_named(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    path.write_text("[comet]\nprt = 1\n")
    with pytest.raises(ConfigError, match="prt"):
        load_config(path)


def test_unknown_tables_are_named_with_the_valid_ones(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    path.write_text("[comte]\nport = 1\n")
    with pytest.raises(ConfigError, match=r"unknown table .comte.; expected one of esnp, tny"):
        load_config(path)
