"""Saved contexts: servers and credentials under a name, so that commands need no URL and no token.

A context is a JSON file of its own in `wirelake/contexts` in `$XDG_CONFIG_HOME`, by default
`~/.config`; the file `current` beside that folder has the name of the one in use. They hold tokens:
the folder has mode 0700 and the files 0600, and a file that others can read is refused, as ssh
does.

Only the standard library is imported here: completion reads the names.
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from .errors import BAD_USAGE, CommandError

__all__ = [
    "VARIABLE",
    "Context",
    "context_names",
    "current_context",
    "current_name",
    "load_context",
    "remove_context",
    "save_context",
    "use_context",
]

VARIABLE: Final = "WIRELAKE_CONTEXT"
"""The variable that names a context, instead of the one in use."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOT_PRIVATE: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, kw_only=True)
class Context:
    """A server, and how to sign on to it; None is not set."""

    url: str | None = None
    """The server, as PROTOCOL://HOST:PORT."""
    client_id: str | None = None
    """The client id."""
    token: str | None = None
    """The client's token."""
    ca: str | None = None
    """File of trusted CA certificates."""
    key: str | None = None
    """Public key of the server, or its file."""
    psk: str | None = None
    """File with a pre-shared key."""
    dialect: str | None = None
    """Dialect of the protocol."""
    anonymous: bool = False
    """Whether the server is not authenticated."""
    plaintext: bool = False
    """Whether unsealed notifications are accepted."""
    admin: str | None = None
    """The hub's admin address."""
    admin_token: str | None = None
    """The admin token."""

    def public(self) -> dict[str, Any]:
        """Return what is set, tokens masked."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, False)}
        return given | {name: "***" for name in ("token", "admin_token") if name in given}


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "wirelake"


def _path(name: str) -> Path:
    return _folder() / "contexts" / f"{name}.json"


def context_names() -> list[str]:
    """Return the names of all contexts, sorted."""
    found = (path.stem for path in (_folder() / "contexts").glob("*.json"))
    return sorted(name for name in found if _NAME.fullmatch(name))


def current_name() -> str | None:
    """Return the name of the context in use; None without one."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    try:
        return (_folder() / "current").read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def current_context() -> Context:
    """Return the context in use, or an empty one."""
    name = current_name()
    return Context() if name is None else load_context(name)


def load_context(name: str) -> Context:
    """Read a context."""
    if name not in context_names():
        raise _unknown(name)
    path = _path(name)
    if path.stat().st_mode & _NOT_PRIVATE:
        raise CommandError(
            f"{path}: other users can read this file; run chmod 600 {path}", BAD_USAGE
        )
    known = {each.name for each in fields(Context)}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Context(**{key: value for key, value in data.items() if key in known})
    except (ValueError, AttributeError, TypeError) as error:
        raise CommandError(
            f"{path}: not a saved context; remove it with: wirelake context remove {name}",
            BAD_USAGE,
        ) from error


def save_context(name: str, context: Context, *, replace: bool = False) -> Path:
    """Write a context; it must not exist yet, unless it may be replaced."""
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"invalid context name {name!r}; expected up to 64 letters, digits, dots, dashes and"
            " underscores",
            BAD_USAGE,
        )
    path = _path(name)
    if path.exists() and not replace:
        raise CommandError(f"context {name!r} already exists; --replace changes it", BAD_USAGE)
    given = {key: value for key, value in asdict(context).items() if value not in (None, False)}
    _write(path, json.dumps(given, indent=2) + "\n")
    return path


def use_context(name: str) -> None:
    """Make a context the one in use."""
    load_context(name)
    _write(_folder() / "current", f"{name}\n")


def remove_context(name: str) -> None:
    """Delete a context."""
    if name not in context_names():
        raise _unknown(name)
    _path(name).unlink()
    current = _folder() / "current"
    if current.exists() and current.read_text(encoding="utf-8").strip() == name:
        current.unlink()


def _write(path: Path, text: str) -> None:
    """Write a private file, in place of an older one if there is one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    # Created with its mode: a file that is made private later can be read in between.
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def _unknown(name: str) -> CommandError:
    from wirelake.wire.errors import unknown

    hint = "" if context_names() else "; wirelake context add saves one"
    return CommandError(f"{unknown('context', name, context_names())}{hint}", BAD_USAGE)
