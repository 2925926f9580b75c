"""Key files: 32 bytes as 64 hex digits, readable by their owner alone.

magline.key     a static X25519 key; `magline.pub` beside it is the half that clients pin
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

__all__ = ["KEY_BYTES", "public_half", "read_key", "static_key"]

KEY_BYTES: Final = 32
"""Every key has this size."""
_HEX: Final = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_log = logging.getLogger(__name__)


def read_key(path: str | Path) -> bytes:
    """The key in a file; ConfigError says what is wrong with it, and never what is in it."""
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(2 * KEY_BYTES + 64).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if _HEX.fullmatch(text) is None:
        raise ConfigError(f"{path}: wanted a key of {2 * KEY_BYTES} hex digits, and nothing else")
    if stat.S_ISREG(mode) and mode & _OTHERS:
        _log.warning("%s can be read by others than its owner; chmod 600 it", path)
    return bytes.fromhex(text)


def static_key(path: str | Path) -> bytes:
    """A static X25519 key; made when it is not there. Its public half is written beside it."""
    path = Path(path)
    if not path.exists():
        _make(path)
    private = read_key(path)
    _write_public(path.with_suffix(".pub"), public_half(private))
    return private


def public_half(private: bytes) -> bytes:
    """The half of a static key that clients may know."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another hub was faster
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(os.urandom(KEY_BYTES).hex() + "\n")
        file.flush()
        os.fsync(handle)
    _log.info("made a new static key: %s", path)


def _write_public(path: Path, public: bytes) -> None:
    """The file may be missing, or of an older key; a folder that is read-only is no trouble."""
    text = public.hex().encode() + b"\n"
    try:
        if not path.exists() or path.read_bytes() != text:
            path.write_bytes(text)
    except OSError as error:
        _log.warning("%s could not be written: %s", path, error.strerror)
