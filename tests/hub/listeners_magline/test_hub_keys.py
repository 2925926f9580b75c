"""Key files: made once, readable by their owner alone, refused with a line that says why."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from wirelake.hub.auth import public_key_of, read_key, static_key
from wirelake.hub.config import ConfigError

THROW_AWAY = "0f" * 32


def test_a_static_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "some.key"
    made = static_key(path)
    assert len(made) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert static_key(path) == made == read_key(path)
    assert path.with_suffix(".pub").read_text() == public_key_of(made).hex() + "\n"
    assert made != static_key(tmp_path / "other.key")


def test_the_public_half_follows_its_key(tmp_path: Path) -> None:
    path = tmp_path / "some.key"
    path.write_text(THROW_AWAY)
    path.chmod(0o600)
    path.with_suffix(".pub").write_bytes(b"\xff of another key")
    private = static_key(path)
    assert path.with_suffix(".pub").read_text().strip() == public_key_of(private).hex()


@pytest.mark.parametrize(
    "text", ["", "0f" * 31, "0f" * 33, "xy" * 32, THROW_AWAY + " and more", "0f" * 10_000]
)
def test_what_is_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "some.key"
    path.write_text(text)
    with pytest.raises(ConfigError, match="expected 64 hex digits") as caught:
        read_key(path)
    assert "0f0f" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"psk: No such file"):
        read_key(tmp_path / "psk")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"file/some\.key"):
        static_key(tmp_path / "file" / "some.key")


def test_a_key_readable_by_others_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "psk"
    path.write_text(THROW_AWAY + "\n")
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert read_key(path).hex() == THROW_AWAY
    assert "chmod 600" in caplog.text
    path.chmod(0o600)
    caplog.clear()
    read_key(path)
    assert not caplog.text
