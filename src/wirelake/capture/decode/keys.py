"""Keys for sealed messages: lines of key logs and of secrets in captures, one connection each.

A line is a JSON object with the name of its protocol, what it is for, and the keys as the opener of
that protocol wants them (`wirelake.protocols.*.opening`):

    {"protocol": "magline", "client_random": "hex", "c2s_enc": "hex", "c2s_iv": "hex", ...}
    {"protocol": "comet", "client_id": "...", "content_key": "hex"}
    {"protocol": "tny", "security_keys": ["..."]}

What it is for: a `connection` by its id, else the field that the protocol declares as its
`KeySelector`; without either, every connection of the protocol. Several
lines may fit (a phone signs on again and again, each time with a new key): they are tried, first
the one that opened something before, then the newest.
"""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Any, Final, TypeAlias

from wirelake.protocols import registry
from wirelake.wire.errors import WireError
from wirelake.wire.protocol import Protocol

__all__ = ["KEPT_SECRETS", "KeyRing", "Keys", "Secret", "Selector"]

KEPT_SECRETS: Final = 65_536
"""Lines from captures that are kept, the newest: a recording has one for each of its connections,
shortly before it is needed. Lines of key logs are all kept."""

_CONNECTION: Final = "connection"

Selector: TypeAlias = tuple[str, str, str | int]
"""The name of a protocol, what tells a connection, and its value; ("tny", "", "") is for all."""
Keys: TypeAlias = dict[str, Any]
"""What an opener is made with."""
Secret: TypeAlias = tuple[Selector, Keys]
"""A line that a capture holds."""


class KeyRing:
    """All keys that are known so far."""

    def __init__(self) -> None:
        self._logged: dict[Selector, list[Keys]] = {}
        self._secret: dict[Selector, list[Keys]] = {}
        self._order: deque[Selector] = deque()
        self._protocols: set[str] = set()
        self.version = 0
        """Counts the lines that were added."""

    def load(self, path: str | os.PathLike[str]) -> None:
        """Adds a key log. Raises ValueError for a line that is none, and OSError."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(path)}: not a key log: not text in UTF-8") from error
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self.add(line)
            except ValueError as error:
                raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from error

    def add(self, line: str) -> None:
        """Adds one line of a key log; empty ones and comments are passed over."""
        self._put(line, self._logged)

    def add_secrets(self, text: str) -> list[str]:
        """Adds the lines that a capture holds; says what is wrong with those that are none."""
        problems: list[str] = []
        for number, line in enumerate(text.splitlines(), 1):
            try:
                selector = self._put(line, self._secret)
            except ValueError as error:
                problems.append(f"line {number} of the secrets: {error}")
                continue
            if selector is not None:
                self._order.append(selector)
        while len(self._order) > KEPT_SECRETS:
            self._drop_secret(self._order.popleft())
        return problems

    def secrets(self) -> tuple[list[Secret], set[str]]:
        """The lines from captures that are kept, the oldest first; for which protocols there were
        any keys."""
        lines = {selector: iter(keys) for selector, keys in self._secret.items()}
        return [(each, next(lines[each])) for each in self._order], set(self._protocols)

    def restore(self, secrets: list[Secret], protocols: set[str]) -> None:
        """Adds what `secrets` gave."""
        for selector, keys in secrets:
            self._secret.setdefault(selector, []).append(keys)
            self._order.append(selector)
        self._protocols |= protocols
        self.version += 1

    def knows(self, protocol: str) -> bool:
        """Whether there are, or were, keys for any connection of a protocol."""
        return protocol in self._protocols

    def candidates(self, selectors: list[Selector]) -> list[Keys]:
        """The keys that may fit: those of the first selector first, of each the newest first."""
        found: list[Keys] = []
        for each in selectors:
            found += reversed(self._secret.get(each, []))
            found += reversed(self._logged.get(each, []))
        return found

    def _drop_secret(self, selector: Selector) -> None:
        lines = self._secret[selector]
        del lines[0]
        if not lines:
            del self._secret[selector]

    def _put(self, line: str, lines: dict[Selector, list[Keys]]) -> Selector | None:
        if not line.strip() or line.startswith("#"):
            return None
        selector, keys = _parse(line)
        known = lines.setdefault(selector, [])
        if keys in known:  # a recording repeats them in every file
            return None
        known.append(keys)
        self._protocols.add(selector[0])
        self.version += 1
        return selector


def _parse(line: str) -> tuple[Selector, Keys]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("protocol"), str):
        raise ValueError("wanted a JSON object with the name of a protocol")
    name = found.pop("protocol")
    try:
        protocol = registry.find(name)
    except registry.RegistryError as error:
        raise ValueError(str(error)) from error
    selector = protocol.meaning.key_selector
    fields = (_CONNECTION,) if selector is None else (_CONNECTION, selector.name)
    given = {each: found.pop(each) for each in fields if each in found}
    _check(protocol, found)
    for field, value in given.items():
        return (name, field, _value(protocol, field, value)), found
    return (name, "", ""), found


def _value(protocol: Protocol, field: str, value: Any) -> str | int:
    if field == _CONNECTION:
        if type(value) is not int:
            raise ValueError("connection: wanted a whole number")
        return value
    if not isinstance(value, str):
        raise ValueError(f"{field}: wanted a text")
    selector = protocol.meaning.key_selector
    return value.lower() if selector is not None and selector.hexadecimal else value


def _check(protocol: Protocol, keys: Keys) -> None:
    """Refuses keys that no dialect of the protocol can use."""
    opener = protocol.opener
    if opener is None or not keys:
        raise ValueError(f"{protocol.name} has no keys" if opener is None else "there are no keys")
    wrong = ""
    for dialect in protocol.dialects:
        try:
            opener(keys, None, dialect)
        except (WireError, ValueError, TypeError) as error:
            wrong = wrong or str(error)
        else:
            return
    raise ValueError(wrong)
