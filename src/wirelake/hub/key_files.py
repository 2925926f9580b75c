"""Key files: 32 bytes as 64 hex digits, readable only by their owner.

magline.key     a static X25519 key; `magline.pub` beside it is the public key that clients pin
any name        a shared key of 32 random bytes (`openssl rand -hex 32`)
"""

from __future__ import annotations

import logging
import os
import re
import stat
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .config import ConfigError

__all__ = ["KEY_BYTES", "public_key_of", "read_key", "static_key"]

KEY_BYTES: Final = 32
"""Size of every key."""
_HEX: Final = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger(__name__)


def read_key(path: str | Path) -> bytes:
    """Read a key; a ConfigError never contains any part of it."""
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(2 * KEY_BYTES + 64).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if _HEX.fullmatch(text) is None:
        raise ConfigError(
            f"{path}: invalid key; expected {2 * KEY_BYTES} hex digits and nothing else"
        )
    if stat.S_ISREG(mode) and mode & _OTHERS:
        _log.warning("%s is readable by other users; run chmod 600", path)
    return bytes.fromhex(text)


def static_key(path: str | Path) -> bytes:
    """Read a static X25519 key, or create it; the public key is written beside it."""
    path = Path(path)
    if not path.exists():
        _create(path)
    private = read_key(path)
    _write_public(path.with_suffix(".pub"), public_key_of(private))
    return private


def public_key_of(private: bytes) -> bytes:
    """Return the public key of a static key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another hub has just created it
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(os.urandom(KEY_BYTES).hex() + "\n")
        file.flush()
        os.fsync(handle)
    _log.info("created a static key: %s", path)


def _write_public(path: Path, public: bytes) -> None:
    """Write the public key unless it is up to date; a read-only folder is not an error."""
    text = public.hex().encode() + b"\n"
    try:
        if not path.exists() or path.read_bytes() != text:
            path.write_bytes(text)
    except OSError as error:
        _log.warning("could not write %s: %s", path, error.strerror)
