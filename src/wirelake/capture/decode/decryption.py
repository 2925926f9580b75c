"""Opens the sealed parts of a connection's messages, as far as keys are known.

`Openings` belongs to one connection. It finds the keys of the connection by its messages, tries the
candidates, and reports whether a message stayed sealed. There is no replay check: a capture may
begin anywhere and have gaps.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple, Protocol, cast

from wirelake.records.message import Describer
from wirelake.wire import model as m
from wirelake.wire.errors import WireError
from wirelake.wire.protocol import Protocol as WireProtocol

from ..format.items import Direction
from .keys import KeyRing, Keys, Selector

__all__ = ["Opened", "Openings", "Remembered"]


class Opened(NamedTuple):
    """The opened parts of a message."""

    parts: dict[str, Any]
    """The layouts inside its stages, by name."""
    body: bytes | None
    """The plaintext of its body, if it was sealed and a key fits."""
    sealed: bool
    """Whether something is sealed and no key is known."""


_NOTHING: Final = Opened({}, None, False)


class Remembered(NamedTuple):
    """The state of `Openings`, to continue later."""

    selectors: list[Selector]
    keys: list[Keys]
    openers: dict[Direction, list[tuple[int, Any]]]
    """In the order in which they are tried: the number of each as they were made of the keys, and
    its memory, which is plain data (numbers, texts, bytes, lists) so that it can be saved."""


class _Opener(Protocol):
    def open(self, message: Any, raw: bytes) -> dict[str, Any]: ...


class _Remembering(_Opener, Protocol):
    """An opener that needs all earlier messages of its direction."""

    memory: Any


class Openings:
    """Opens the sealed parts of one connection."""

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
        self._as_made: dict[Direction, list[_Opener]] = {}
        self._stages = _staged(describer.protocol, describer.dialect)
        self._model = describer.protocol.model(describer.dialect)

    def told(self, what: str, value: str) -> None:
        """Add a key selector that another reader found for this connection."""
        self._select((self._describer.protocol.name, what, value))

    def open(self, message: Any, raw: bytes, direction: Direction) -> Opened:
        """Open the sealed parts of a message. Raises WireError when keys are known and none
        fits."""
        if self._opener is None:
            return _NOTHING
        self._recognise(message)
        sealable = self._describer.sealable(message)
        if sealable is not None and self._in_clear(sealable):
            return _NOTHING
        parts = self._open(message, raw, direction)
        if sealable is not None:
            body = _plaintext(parts)
            return Opened(parts, body, body is None)
        stage = self._stages.get(type(_body(self._model, message)))
        return Opened(parts, None, stage is not None and stage not in parts)

    def _recognise(self, message: Any) -> None:
        if self._selector_name is not None:
            value = self._describer.key_name(message)
            if value is not None:
                self.told(self._selector_name, value)
        if self._version != self._ring.version:
            self._version = self._ring.version
            keys = self._ring.candidates(self._selectors)
            if keys != self._keys or not self._openers:
                self._keys = keys
                self._make()

    def _select(self, selector: Selector) -> None:
        if selector not in self._selectors:
            self._selectors[1:-1] = [selector]
            self._version = -1

    def remembered(self) -> Remembered | None:
        """Return the state to continue later, or None when there is none."""
        if not self._keys and len(self._selectors) == 2:
            return None
        openers = {
            direction: [(made.index(each), _memory(each)) for each in self._openers[direction]]
            for direction, made in self._as_made.items()
        }
        return Remembered(list(self._selectors), list(self._keys), openers)

    def go_on(self, remembered: Remembered) -> None:
        """Continue from the state of another reader."""
        self._selectors = list(remembered.selectors)
        self._keys = remembered.keys
        if not remembered.openers:
            return
        self._make()
        for direction, known in remembered.openers.items():
            made = self._as_made[direction]
            self._openers[direction] = [made[at] for at, _ in known]
            for at, memory in known:
                if memory is not None:
                    cast(_Remembering, made[at]).memory = memory

    def _make(self) -> None:
        self._as_made = {"c2s": self._made("c2s"), "s2c": self._made("s2c")}
        self._openers = {direction: list(made) for direction, made in self._as_made.items()}

    def _made(self, direction: Direction) -> list[_Opener]:
        """Return one opener for each key that fits the dialect, or a single one without keys."""
        dialect = self._describer.dialect
        made: list[_Opener] = []
        for keys in self._keys:
            try:
                made.append(self._opener(keys, direction, dialect))
            except (WireError, ValueError):
                continue  # keys of another dialect
        return made or [self._opener({}, direction, dialect)]

    def _open(self, message: Any, raw: bytes, direction: Direction) -> dict[str, Any]:
        openers = self._openers[direction]
        first: WireError | None = None
        for opener in openers:
            try:
                parts = opener.open(message, raw)
            except WireError as error:
                first = first or error
                continue
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
def _staged(protocol: WireProtocol, dialect: str) -> dict[type, str]:
    """Return the name of the staged layout, by the class of the layout that holds it."""
    return {
        layout.cls: part.stage.name
        for layout in protocol.layouts(dialect)
        for part in layout.parts
        if isinstance(part, m.Field) and part.stage is not None
    }
