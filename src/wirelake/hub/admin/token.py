"""The administrator's token: one file in the data directory, made on the first start."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from ..config import ConfigError

__all__ = ["FILE", "admin_token"]

FILE: Final = "admin.token"
"""The name of the file."""
_LEAST: Final = 16
"""Characters that a token of one's own must have."""


def admin_token(data: Path) -> str:
    """The token in a data directory; it is made if there is none, readable by its owner alone."""
    path = data / FILE
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    token = "a" + secrets.token_urlsafe(32)
    with open(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token


def _read(path: Path) -> str:
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if len(token) < _LEAST or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{path}: not a token: wanted {_LEAST} or more visible ASCII characters; "
            f"remove the file, and the hub makes a new one"
        )
    return token
