"""A protocol as Kaitai Struct files: `kaitai(protocol)` gives `.ksy` text made from its model.

The top type reads one frame. A protocol whose directions differ has a file for each. How a
declaration shows in the compiled parser:

    integer, float, fixed bytes, layout, Var   attribute `x`
    varint                                     `x.value`
    blob, text                                 `len_x`, then `x`
    text that may be invalid UTF-8             `x` is bytes, `x_text` the text
    bool                                       `x_raw` (a byte), and `x`
    list                                       `num_x`, then `x`; an item that is not a plain
                                               attribute has a type of its own, with `value`
    rows                                       `x`: rows with `kind`, `len_body`, `body`; END too
    what follows a length                      `rest`, in a stream of its own
    options                                    `options`, each with its `len_`
    body                                       its name; the type follows the tag
    protobuf layout                            `fields`: each `number`, `wire_type`, `value`

Kaitai only reads, and has no words for some things. Not expressed: the limits of a reader (sizes,
depth and number of values), what a stage's transform yields (its layout is there as a type), and
keeping a row that breaks a rule as bytes: a message with such a row is refused whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from .. import model as m
from ._ksy_parts import Parts
from ._ksy_words import (
    Node,
    Vocabulary,
    identifier,
)
from ._yaml import dump

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = ["identifier", "kaitai"]

KS_VERSION = "0.11"
"""The first version that knows `in-enum`."""


def kaitai(
    protocol: Protocol, dialect: str | None = None, direction: m.Direction | None = None
) -> dict[str, str]:
    """The files of a dialect: name -> text. `direction` picks one where directions differ."""
    name = protocol.dialect(dialect)
    if direction is not None and direction not in get_args(m.Direction):
        raise ValueError(f"{direction!r} is no direction; c2s and s2c are")
    stem = protocol.name if name == protocol.dialects[0] else f"{protocol.name}_{name}"
    if not protocol.directed:
        return {f"{identifier(stem)}.ksy": _file(protocol, name, identifier(stem), None)}
    directions: tuple[m.Direction, ...] = ("c2s", "s2c") if direction is None else (direction,)
    idents = {way: identifier(f"{stem}_{way}") for way in directions}
    return {f"{ident}.ksy": _file(protocol, name, ident, way) for way, ident in idents.items()}


def _file(protocol: Protocol, dialect: str, ident: str, direction: m.Direction | None) -> str:
    frame, *others = protocol.layouts(dialect)
    builder = _Builder(ident, direction, frame)
    top = builder.body_of(frame)
    more = set(protocol.more)
    for layout in others:
        if layout.cls in more:
            builder.layout(layout)
    head: Node = {"meta": _meta(protocol, dialect, ident, direction)}
    if protocol.doc:
        head["doc"] = protocol.doc.strip()
    if frame.section:
        head["doc-ref"] = frame.section
    if builder.words.types:
        top["types"] = dict(sorted(builder.words.types.items()))
    if builder.words.enums:
        top["enums"] = dict(sorted(builder.words.enums.items()))
    return f"# Made from the declaration of {protocol.name}; do not edit.\n{dump(head | top)}"


def _meta(
    protocol: Protocol, dialect: str, ident: str, direction: m.Direction | None
) -> dict[str, Any]:
    notes = []
    if len(protocol.dialects) > 1:
        notes.append(f"dialect {dialect}")
    if direction is not None:
        notes.append("client to server" if direction == "c2s" else "server to client")
    title = f"{protocol.title} ({', '.join(notes)})" if notes else protocol.title
    return {"id": ident, "title": title, "ks-version": KS_VERSION, "encoding": "UTF-8"}


class _Builder:
    """Builds the types of layouts as they are asked for."""

    def __init__(self, ident: str, direction: m.Direction | None, frame: m.Layout):
        self.words = Vocabulary(ident)
        self.direction = direction
        self._frame = frame
        self._ident = ident

    def layout(self, layout: m.Layout) -> str:
        """The type of a layout."""
        if layout is self._frame:
            return self._ident
        name, new = self.words.name(layout, identifier(layout.name))
        if new:
            self.words.types[name] = {}  # holds the place: a layout may be asked for meanwhile
            self.words.types[name] = _documented(layout) | self.body_of(layout)
        return name

    def body_of(self, layout: m.Layout) -> Node:
        """What stands in the type of a layout, without its documentation."""
        scope = Parts(self, layout)
        if layout.protobuf:
            scope.add_protobuf()
        else:
            scope.add_parts(layout.parts)
        return scope.node()


def _documented(layout: m.Layout) -> Node:
    node: Node = {}
    if layout.doc:
        node["doc"] = layout.doc
    if layout.section:
        node["doc-ref"] = layout.section
    return node
