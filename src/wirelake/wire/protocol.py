"""A protocol as a whole: its frame, its dialects, and the codec made from them.

`Protocol` joins a layout and its meaning. The entry point `wirelake.protocols` names one, and every
tool starts from one. It is cheap to make: layouts are read, checked and codecs loaded on first use.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from .errors import EncodeError, unknown
from .meaning import Meaning
from .model import Direction
from .model import Layout as LayoutModel
from .types import Layout

__all__ = ["Decoded", "Protocol", "Revision", "load_reference"]


class Decoded(NamedTuple):
    """A message and where it stops in the buffer."""

    message: Any
    stop: int


class Revision(NamedTuple):
    """A version of a protocol's document that has the same bytes and stricter rules."""

    problems: str
    """`module:function`; yields what a strict reader refuses in a message."""
    unnamed: tuple[str, ...] = ()
    """Names of numbers that have none in this revision."""


class Protocol:
    """A named protocol, declared by its frame layout.

    `more` are layouts that no frame reaches by itself, such as what a stage yields. The first
    dialect is the default. `directed`: whether a reader must know the direction. `meaning` tells
    other packages what its messages mean. `opener` (`module:class`, imported when it is needed)
    opens sealed parts: `Opener(keys, direction, dialect).open(message, raw)`; its `keys_text`, if
    it has one, describes the keys. `binding` names, in the same way, how it goes live
    (`wirelake.protocols.binding`); without one it is decoded only.
    """

    def __init__(
        self,
        *,
        name: str,
        title: str,
        frame: type[Layout],
        more: tuple[type[Layout], ...] = (),
        dialects: tuple[str, ...] = ("seed",),
        port: int | None = None,
        meaning: Meaning | None = None,
        opener: str | None = None,
        binding: str | None = None,
        revisions: Mapping[str, Revision] | None = None,
    ):
        self.name = name
        self.title = title
        self.frame = frame
        self.more = more
        self.dialects = dialects
        self.port = port
        self.meaning = meaning if meaning is not None else Meaning()
        self.revisions = {} if revisions is None else revisions
        self._opener = opener
        self.binding = binding
        self._functions: dict[tuple[str, str | None, Direction | None], Any] = {}
        self._models: dict[str, LayoutModel] = {}

    def __repr__(self) -> str:
        return f"<Protocol {self.name}>"

    @property
    def doc(self) -> str:
        """The docstring of the layout module."""
        import sys

        return sys.modules[self.frame.__module__].__doc__ or ""

    def dialect(self, name: str | None) -> str:
        """Return a dialect by name, or the default. Raises ValueError naming the valid ones."""
        if name is None:
            return self.dialects[0]
        if name not in self.dialects:
            raise ValueError(unknown("dialect", name, self.dialects, of=self.name))
        return name

    def model(self, dialect: str | None = None) -> LayoutModel:
        """Return the frame as data, for views."""
        name = self.dialect(dialect)
        if name not in self._models:
            from .declare import build

            self._models[name] = build(self.frame, name)
        return self._models[name]

    def layouts(self, dialect: str | None = None) -> list[LayoutModel]:
        """Return every layout that belongs to the protocol, frame first."""
        from .declare import build
        from .walk import reachable

        name = self.dialect(dialect)
        return reachable([self.model(name), *(build(cls, name) for cls in self.more)])

    def check(self) -> None:
        """Raise DeclarationError when a layout is invalid, or when the meaning does not fit the
        layouts."""
        from .meaning_rules import check_meaning

        check_meaning(self)

    @functools.cached_property
    def directed(self) -> bool:
        """Whether the same bytes mean different things in the two directions."""
        body = self.model().body
        return body is not None and body.directed

    @functools.cached_property
    def opener(self) -> Any:
        """The class that opens sealed parts of messages; None when nothing is ever sealed."""
        return None if self._opener is None else load_reference(self._opener)

    def problems(self, message: Layout, revision: str) -> list[Exception]:
        """Yield what a strict reader of a revision refuses in a message."""
        return list(load_reference(self.revisions[revision].problems)(message))

    def codec(self, dialect: str | None = None) -> ModuleType:
        """Return the generated module of a dialect."""
        name = self.dialect(dialect)
        cache: dict[str, ModuleType] = self.__dict__.setdefault("_codecs", {})
        if name not in cache:
            from .generate.dynamic import load_codec

            cache[name] = load_codec(self, name)
        return cache[name]

    def decode(
        self,
        data: bytes,
        start: int = 0,
        *,
        direction: Direction | None = None,
        dialect: str | None = None,
        limit: int | None = None,
    ) -> Decoded:
        """Return the message that begins at `start`. Raises DecodeError or NeedMore, nothing else.

        `direction` must be given when the protocol is `directed`; ValueError otherwise.
        """
        decode = self._functions.get(("decode", dialect, direction))
        if decode is None:
            decode = self._decoder(dialect, direction)
        # Slices of a bytearray or a memoryview would be stored in messages as that type.
        buf = data if type(data) is bytes else bytes(data)
        if limit is None:
            return Decoded._make(decode(buf, start, len(buf)))
        return Decoded._make(decode(buf, start, len(buf), limit))

    def _decoder(self, dialect: str | None, direction: Direction | None) -> Any:
        """Return the generated function for a dialect and a direction, remembered."""
        name = f"decode_{self.model(dialect).name}"
        if self.directed:
            if direction not in ("c2s", "s2c"):
                raise ValueError(f"{self.name} requires a direction: c2s (from a client) or s2c")
            name = f"{name}_{direction}"
        found = getattr(self.codec(dialect), name)
        self._functions["decode", dialect, direction] = found
        return found

    def encode(self, message: Layout, *, dialect: str | None = None) -> bytes:
        """Return the bytes of a message. Raises EncodeError, nothing else."""
        encode = self._functions.get(("encode", dialect, None))
        if encode is None:
            encode = getattr(self.codec(dialect), f"encode_{self.model(dialect).name}")
            self._functions["encode", dialect, None] = encode
        try:
            data = encode(message)
            return data if type(data) is bytes else bytes(memoryview(data))
        except (AttributeError, TypeError, ValueError, ArithmeticError, struct.error) as error:
            raise EncodeError("bad_value", type(message).__name__, None, str(error)) from error

    def scan(
        self,
        data: bytes,
        start: int = 0,
        *,
        dialect: str | None = None,
        limit: int | None = None,
    ) -> int:
        """Return where the frame that begins at `start` stops, without decoding its body."""
        scan = getattr(self.codec(dialect), f"scan_{self.model(dialect).name}")
        buf = bytes(data)
        args: tuple[Any, ...] = () if limit is None else (limit,)
        return int(scan(buf, start, len(buf), *args))


def load_reference(reference: str) -> Any:
    """Import the object named by "module:attribute". Raises ImportError or AttributeError."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
