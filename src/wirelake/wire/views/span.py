"""`Span`: where one field lies in the bytes, what it holds, and what went wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import DecodeError, NeedMore
from ..model import EnumClass

__all__ = ["Span"]


@dataclass(slots=True)
class Span:
    """A field, a part of one, or a group of them: bytes `start` to `stop` of the buffer."""

    name: str
    path: str
    """Dotted, from the root: `message.rows[2].value`."""
    start: int
    stop: int
    value: object = None
    """What the codec stores for it; a number or bytes where the codec stores nothing."""
    doc: str = ""
    secret: bool = False
    names: EnumClass | None = None
    children: list[Span] = field(default_factory=list)
    layout: str = ""
    """The layout that the children are the fields of, if they are."""
    bits: tuple[int, int] | None = None
    """Of a bit field: (lowest bit, width) within the big-endian number that its bytes are."""
    number: int | None = None
    """Of a part of a tag that is made of several bit fields: the tag so far, which has the name."""
    inner: bool = False
    """Whether it is a detail of its parent, such as the length before a string."""
    error: DecodeError | NeedMore | None = None
    """What stopped the reading here. The parents of the place have the same error, up to the root
    or, for a row that the codec keeps as broken, up to that row."""
    stage: Span | None = None
    """What the bytes hold once a transform is undone; its positions count in `plaintext`."""
    plaintext: bytes = b""

    @property
    def size(self) -> int:
        """How many bytes it covers."""
        return self.stop - self.start

    @property
    def label(self) -> str:
        """The name of its number, if it has one."""
        number = self.value if self.number is None else self.number
        if self.names is None or not isinstance(number, int):
            return ""
        known = self.names._value2member_map_.get(number)
        return known.name if known is not None else ""

    def walk(self) -> Iterator[Span]:
        """Itself and all below it, outer first; stages are not entered."""
        yield self
        for child in self.children:
            yield from child.walk()

    def leaves(self) -> Iterator[Span]:
        """The smallest spans of whole bytes: laid end to end they are the whole."""
        whole = [child for child in self.children if child.bits is None]
        if not whole:
            yield self
        for child in whole:
            yield from child.leaves()

    def find(self, path: str) -> Span | None:
        """The span with a path."""
        return next((span for span in self.walk() if span.path == path), None)

    def at(self, offset: int) -> Span | None:
        """The smallest span of whole bytes that covers a byte."""
        return next((leaf for leaf in self.leaves() if leaf.start <= offset < leaf.stop), None)
