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
"""Maximum number of lines kept from captures. A recording has one per connection, shortly before it
is needed, so the newest are kept. Lines of key logs are all kept."""

_CONNECTION: Final = "connection"

Selector: TypeAlias = tuple[str, str, str | int]
"""A protocol, the field that selects a connection, and its value; ("tny", "", "") selects all."""
Keys: TypeAlias = dict[str, Any]
"""Arguments of an opener."""
Secret: TypeAlias = tuple[Selector, Keys]
"""A line from a capture."""


class KeyRing:
    """All known keys."""

    def __init__(self) -> None:
        self._logged: dict[Selector, list[Keys]] = {}
        self._secret: dict[Selector, list[Keys]] = {}
        self._order: deque[Selector] = deque()
        self._protocols: set[str] = set()
        self.version = 0
        """Counts the lines that were added."""

    def load(self, path: str | os.PathLike[str]) -> None:
        """Add a key log. Raises ValueError for an invalid line, and OSError."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(path)}: not a key log: invalid UTF-8") from error
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self.add(line)
            except ValueError as error:
                raise ValueError(f"{os.fspath(path)}, line {number}: {error}") from error

    def add(self, line: str) -> None:
        """Add one line of a key log. Empty lines and comments are ignored."""
        self._put(line, self._logged)

    def add_secrets(self, text: str) -> list[str]:
        """Add the lines that a capture holds. Return the problems of invalid lines."""
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
        """Return the lines kept from captures, the oldest first, and the protocols that ever had
        keys."""
        lines = {selector: iter(keys) for selector, keys in self._secret.items()}
        return [(each, next(lines[each])) for each in self._order], set(self._protocols)

    def restore(self, secrets: list[Secret], protocols: set[str]) -> None:
        """Add what `secrets` returned."""
        for selector, keys in secrets:
            self._secret.setdefault(selector, []).append(keys)
            self._order.append(selector)
        self._protocols |= protocols
        self.version += 1

    def knows(self, protocol: str) -> bool:
        """Return whether any connection of a protocol has or had keys."""
        return protocol in self._protocols

    def candidates(self, selectors: list[Selector]) -> list[Keys]:
        """Return the keys that may fit, in the order of the selectors, the newest first for
        each."""
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
        raise ValueError("expected a JSON object with a protocol")
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
            raise ValueError("connection: expected an integer")
        return value
    if not isinstance(value, str):
        raise ValueError(f"{field}: expected a string")
    selector = protocol.meaning.key_selector
    return value.lower() if selector is not None and selector.hexadecimal else value


def _check(protocol: Protocol, keys: Keys) -> None:
    """Raise ValueError for keys that no dialect of the protocol can use."""
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
