"""`KeyRing` and `Decryptor`: the known keys, and the decryption of one connection's messages.

`Decryptor` belongs to one connection. It finds the keys of the connection by its messages, tries
the candidates, and reports whether a message stayed sealed. There is no replay check: a capture may
begin anywhere and have gaps.
"""

from __future__ import annotations

import functools
import json
import os
import typing
from collections import deque
from typing import Any, Final, NamedTuple, TypeAlias, cast

from wirelake.protocols import registry
from wirelake.records.message import Describer
from wirelake.wire import model as m
from wirelake.wire.errors import WireError
from wirelake.wire.paths import local_path
from wirelake.wire.protocol import Protocol

from ..format.items import Direction

__all__ = [
    "KEPT_SECRETS",
    "Decrypted",
    "Decryptor",
    "DecryptorState",
    "KeyRing",
    "Keys",
    "Secret",
    "Selector",
]


# -- keys ------------------------------------------------------------------------------------

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
            # A key log is small, and is read at once, so that a bad line is reported before any
            # output.
            text = local_path(path).read_text(encoding="utf-8")
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
        # The oldest lines are dropped first: a recording has the keys of a connection shortly
        # before its messages.
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
            # Keys in captures before those of key logs: they were recorded with this traffic.
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
        raise ValueError(
            f"protocol {protocol.name} has no keys" if opener is None else "missing keys"
        )
    wrong = ""
    # A key may be valid in one dialect only, and the ring does not know which one will be read.
    for dialect in protocol.dialects:
        try:
            opener(keys, None, dialect)
        except (WireError, ValueError, TypeError) as error:
            wrong = wrong or str(error)
        else:
            return
    raise ValueError(wrong)


class Decrypted(NamedTuple):
    """The decrypted parts of a message."""

    parts: dict[str, Any]
    """The layouts in its stages, by name."""
    body: bytes | None
    """The plaintext of its body, if it was sealed and a key fits."""
    sealed: bool
    """Whether something is sealed and no key is known."""
    message: Any = None
    """The message with the plaintext of the sealed items of its list; None if it has none."""


_IN_CLEAR: Final = Decrypted({}, None, False)


class DecryptorState(NamedTuple):
    """The saved state of a `Decryptor`."""

    selectors: list[Selector]
    keys: list[Keys]
    openers: dict[Direction, list[tuple[int, Any]]]
    """In the order in which they are tried: the number of each as they were created of the keys,
    and its memory, which is plain data (numbers, texts, bytes, lists) so that it can be saved."""


class _Opener(typing.Protocol):
    def open(self, message: Any, raw: bytes) -> dict[str, Any]: ...


class _StatefulOpener(_Opener, typing.Protocol):
    """An opener that needs all earlier messages of its direction."""

    memory: Any


class Decryptor:
    """Decrypts the messages of one connection.

    An opener of the protocol is created for each candidate key and direction. They are tried in
    turn, and the one that fits is moved to the front: it fits all further messages.
    """

    def __init__(self, ring: KeyRing, describer: Describer, connection: int):
        self._ring = ring
        self._describer = describer
        name = describer.protocol.name
        self._selectors: list[Selector] = [(name, "connection", connection), (name, "", "")]
        selector = describer.protocol.meaning.key_selector
        self._selector_name = None if selector is None else selector.name
        self._opener = describer.protocol.opener
        self._version = -1
        self._keys: list[Keys] = []
        self._openers: dict[Direction, list[_Opener]] = {}
        self._created: dict[Direction, list[_Opener]] = {}
        self._stages = _staged(describer.protocol, describer.dialect)
        self._model = describer.protocol.model(describer.dialect)

    def use_selector(self, found: tuple[str, str] | None) -> None:
        """Use the key selector (a field and its value) that messages so far have named; None: they
        have not named any."""
        # Between the connection's id, which is the most specific, and the keys for all connections.
        # A new sign-on replaces the selector of an earlier one.
        named = [] if found is None else [(self._describer.protocol.name, *found)]
        if named != self._selectors[1:-1]:
            self._selectors[1:-1] = named
            self._version = -1

    def decrypt(self, message: Any, raw: bytes, direction: Direction) -> Decrypted:
        """Decrypt the sealed parts of a message. Raises WireError when keys are known and none
        fits."""
        if self._opener is None:
            return _IN_CLEAR
        self._update_keys(message)
        items = self._describer.sealable_items(message)
        if items is not None:
            return self._decrypt_items(message, raw, direction, items)
        sealable = self._describer.sealable(message)
        if sealable is not None and self._in_clear(sealable):
            return _IN_CLEAR
        parts = self._try_openers(message, raw, direction)
        if sealable is not None:
            body = _plaintext(parts)
            return Decrypted(parts, body, body is None)
        stage = self._stages.get(type(_body(self._model, message)))
        return Decrypted(parts, None, stage is not None and stage not in parts)

    def _decrypt_items(
        self, message: Any, raw: bytes, direction: Direction, items: list[bytes]
    ) -> Decrypted:
        """Decrypt the sealed items of a list, each that a key fits. Items may have been sealed with
        another key than the connection's, so one that does not open stays sealed: no fault."""
        sealed = [number for number, item in enumerate(items) if not self._in_clear(item)]
        left = set(sealed)
        for opener in self._openers[direction]:
            contents = opener.open(message, raw).get("contents", ())
            for number, content in enumerate(contents):
                if number in left and isinstance(content, bytes | str):
                    items[number] = content.encode() if isinstance(content, str) else content
                    left.remove(number)
        opened = self._describer.with_items(message, items) if len(left) < len(sealed) else None
        return Decrypted({}, None, bool(left), opened)

    def _update_keys(self, message: Any) -> None:
        if self._selector_name is not None:
            value = self._describer.key_name(message)
            if value is not None:
                self.use_selector((self._selector_name, value))
        if self._version != self._ring.version:
            self._version = self._ring.version
            keys = self._ring.candidates(self._selectors)
            # Openers have state (counters of earlier messages): new ones only if the keys differ.
            if keys != self._keys or not self._openers:
                self._keys = keys
                self._create_all()

    def save(self) -> DecryptorState | None:
        """Return the state to continue later, or None when there is none."""
        if not self._keys and len(self._selectors) == 2:
            return None
        openers = {
            direction: [(created.index(each), _memory(each)) for each in self._openers[direction]]
            for direction, created in self._created.items()
        }
        return DecryptorState(list(self._selectors), list(self._keys), openers)

    def restore(self, state: DecryptorState) -> None:
        """Continue from the state of another reader."""
        self._selectors = list(state.selectors)
        self._keys = state.keys
        if not state.openers:
            return
        self._create_all()
        for direction, known in state.openers.items():
            created = self._created[direction]
            self._openers[direction] = [created[at] for at, _ in known]
            for at, memory in known:
                if memory is not None:
                    cast(_StatefulOpener, created[at]).memory = memory

    def _create_all(self) -> None:
        self._created = {"c2s": self._create_openers("c2s"), "s2c": self._create_openers("s2c")}
        self._openers = {direction: list(created) for direction, created in self._created.items()}

    def _create_openers(self, direction: Direction) -> list[_Opener]:
        """Return one opener for each key that fits the dialect, or a single one without keys."""
        dialect = self._describer.dialect
        created: list[_Opener] = []
        for keys in self._keys:
            try:
                created.append(self._opener(keys, direction, dialect))
            except (WireError, ValueError):
                continue  # keys of another dialect
        return created or [self._opener({}, direction, dialect)]

    def _try_openers(self, message: Any, raw: bytes, direction: Direction) -> dict[str, Any]:
        openers = self._openers[direction]
        first: WireError | None = None
        for opener in openers:
            try:
                parts = opener.open(message, raw)
            except WireError as error:
                first = first or error
                continue
            # The opener that fits is tried first from now on.
            if opener is not openers[0]:
                openers.remove(opener)
                openers.insert(0, opener)
            return parts
        assert first is not None
        raise first

    def _in_clear(self, body: bytes) -> bool:
        """Return whether a sealable body is in the clear, as far as the protocol can tell."""
        mark = self._describer.protocol.meaning.seal_mark
        if mark is None:
            return False
        if self._describer.dialect in mark.unmarked_dialects:
            # Only a key can tell in these dialects: without one the body counts as plaintext.
            return not self._keys
        return len(body) < mark.overhead_bytes or not body.startswith(mark.prefix)


def _memory(opener: _Opener) -> Any:
    return getattr(opener, "memory", None)


def _plaintext(parts: dict[str, Any]) -> bytes | None:
    """Return the body among the parts that an opener returns."""
    found = parts.get("data", parts.get("content"))
    assert found is None or isinstance(found, bytes | str)
    return found.encode() if isinstance(found, str) else found


def _body(model: m.Layout, message: Any) -> Any:
    if model.body is None or model.transparent:
        return message
    return getattr(message, model.body.name)


@functools.cache
def _staged(protocol: Protocol, dialect: str) -> dict[type, str]:
    """Return the name of the staged layout, by the class of the layout that holds it."""
    return {
        layout.cls: part.stage.name
        for layout in protocol.layouts(dialect)
        for part in layout.parts
        if isinstance(part, m.Field) and part.stage is not None
    }
