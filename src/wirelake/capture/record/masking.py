"""`Masker`: replaces the secret bytes of a frame by zeros.

The layout says which bytes: fields marked `Secret`; unknown content (unknown rows, broken rows,
unknown fields), which might be secret; and, in messages that may hold the credentials of a sign-on
or on request in all, the application's content: the body declared by the protocol's `Meaning`,
self-describing values, and all other bytes without a fixed size. Lengths and tags stay, so that the
frame still decodes and offsets in tables stay valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from wirelake.records.message import Describer
from wirelake.wire import model as m
from wirelake.wire.model import Direction
from wirelake.wire.protocol import Protocol
from wirelake.wire.views._trace_layouts import Span, trace
from wirelake.wire.walk import is_content, reachable

__all__ = ["Masker"]

_CONTENT: Final = frozenset({"text", "bytes", "value"})
"""The parts of a value that are content; the others are lengths, counts and tags."""

_PROTOBUF_BYTES: Final = 2

_Range: TypeAlias = tuple[int, int]
_FieldName: TypeAlias = tuple[str, str]
"""The names of a layout and of its field."""


class Masker:
    """Masks the frames of one protocol in one direction."""

    def __init__(self, protocol: Protocol, dialect: str, direction: Direction, *, content: bool):
        self._model = protocol.model(dialect)
        self._direction: Direction | None = direction if protocol.directed else None
        self._describer = Describer(protocol, dialect)
        self._transform_flags = protocol.meaning.transformed
        self._may_sign_on = bool(protocol.meaning.sign_on.targets)
        self._hide_content = content
        layouts = protocol.layouts(dialect)
        self._content = _content_fields(layouts, protocol)
        self._stages = _stage_fields(layouts)
        self._undecoded_rows = _undecoded_rows(layouts)
        self._has_secrets: dict[str | None, bool] = {}

    def __call__(self, message: Any, raw: bytes, opened: Mapping[str, Any] | None = None) -> bytes:
        """Return the bytes of a frame, masked. `message` is the decoded frame, `opened` what its
        stages yielded, by name."""
        # Encrypted content cannot be traced: it is hidden as a whole, or kept as it is.
        transformed = any(getattr(message, flag, False) for flag in self._transform_flags)
        # A stage that was not opened may hold credentials, and a transform need not be encryption.
        unknown = transformed and self._may_sign_on and not opened
        content = self._hide_content or unknown or self.has_credentials(message, opened)
        if not (content or self._may_have_secrets(message) or self._has_undecoded(message)):
            return raw
        # Tracing visits every field in Python; frames without secrets, which are most, do not get
        # here.
        root = trace(self._model, raw, direction=self._direction)
        masked = bytearray(raw)
        for start, stop in self._hidden(root, raw, content, transformed):
            masked[start:stop] = bytes(stop - start)
        return bytes(masked)

    def has_credentials(self, message: Any, opened: Mapping[str, Any] | None = None) -> bool:
        """Return whether the content of a frame may hold credentials of a sign-on."""
        return self._describer.has_credentials(message, opened)

    def mark_content(self, span: Span) -> None:
        """Mark the application's content as secret in the trace of a frame."""
        for child in span.children:
            field = (span.layout, child.name)
            if (
                field in self._stages
                or field in self._content
                or type(child.value) in self._undecoded_rows
                or child.name.startswith("unknown_")
            ):
                child.secret = True
            else:
                self.mark_content(child)
            if child.stage is not None:
                self.mark_content(child.stage)

    # -- frames that need no masking: tracing every field of a frame is slow ------------------

    def _may_have_secrets(self, message: Any) -> bool:
        name = self._describer.name_of(message)
        if name not in self._has_secrets:
            layout, _ = self._body(message)
            without_body = m.Layout(
                self._model.name,
                self._model.cls,
                tuple(part for part in self._model.parts if not isinstance(part, m.Body)),
                self._model.dialect,
            )
            roots = [without_body] if layout is None else [without_body, layout]
            self._has_secrets[name] = any(map(_has_secret, reachable(roots)))
        return self._has_secrets[name]

    def _has_undecoded(self, message: Any) -> bool:
        """Return whether the message has unknown content."""
        for part in self._model.parts:
            if isinstance(part, m.Options) and getattr(message, part.unknown):
                return True
            if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
                rows = getattr(message, part.name)
                if any(type(row) in self._undecoded_rows for row in rows):
                    return True
        layout, value = self._body(message)
        return bool(layout is not None and layout.unknown and getattr(value, layout.unknown))

    def _body(self, message: Any) -> tuple[m.Layout | None, Any]:
        """Return the layout and the value of the body."""
        body = self._model.body
        if body is None:
            return None, None
        value = message if self._model.transparent else getattr(message, body.name)
        chosen = (a.layout for a in body.alternatives if a.layout.cls is type(value))
        return next(chosen, None), value

    # -- ranges to hide ----------------------------------------------------------------------

    def _hidden(self, span: Span, raw: bytes, content: bool, transformed: bool) -> Iterator[_Range]:
        for child in span.children:
            field = (span.layout, child.name)
            if field in self._stages:
                yield from self._in_stage(child, self._stages[field], raw, content, transformed)
            elif type(child.value) in self._undecoded_rows:
                yield child.children[1].stop, child.stop  # type and size stay
            elif child.name.startswith("unknown_") and not child.children:
                yield _unknown_value_start(child, raw), child.stop
            elif (
                child.secret
                or (content and field in self._content)
                or child.name.startswith("unknown_")
            ):
                yield from _value_ranges(child)
            else:
                yield from self._hidden(child, raw, content, transformed)

    def _in_stage(
        self, span: Span, stage: m.Layout, raw: bytes, content: bool, transformed: bool
    ) -> Iterator[_Range]:
        """Yield what to hide in a staged field, if it is not transformed."""
        if not transformed:
            inner = trace(stage, raw, span.start, span.stop, direction=self._direction)
            if inner.error is None:
                yield from self._hidden(inner, raw, content, transformed)
                return
        if content or any(map(_has_secret, reachable([stage]))):
            yield span.start, span.stop


def _value_ranges(span: Span) -> Iterator[_Range]:
    for leaf in span.leaves():
        if leaf is span or not leaf.inner or leaf.name in _CONTENT:
            yield leaf.start, leaf.stop


def _unknown_value_start(span: Span, raw: bytes) -> int:
    """Return where the value of an undeclared protobuf field begins: after its key and, for bytes,
    after their length. A group or a long number, which zeros cannot replace, is hidden as a whole;
    the frame then does not decode, but nothing is revealed."""
    assert isinstance(span.value, bytes)
    at = span.stop - len(span.value)
    if raw[span.start] & 7 == _PROTOBUF_BYTES:
        while raw[at] & 0x80:
            at += 1
        at += 1
    return at


def _has_secret(layout: m.Layout) -> bool:
    for part in layout.parts:
        if isinstance(part, m.Field) and part.secret:
            return True
        if isinstance(part, m.Options) and any(option.secret for option in part.fields):
            return True
    return False


def _fields(layouts: Iterable[m.Layout]) -> Iterator[tuple[m.Layout, m.Field]]:
    for layout in layouts:
        for part in layout.parts:
            if isinstance(part, m.Field):
                yield layout, part


def _stage_fields(layouts: Iterable[m.Layout]) -> dict[_FieldName, m.Layout]:
    return {
        (layout.name, field.name): field.stage
        for layout, field in _fields(layouts)
        if field.stage is not None
    }


def _content_fields(layouts: Iterable[m.Layout], protocol: Protocol) -> frozenset[_FieldName]:
    meaning = protocol.meaning
    bodies = {path.rpartition(".")[2] for path in (*meaning.body, *meaning.sealed)}
    return frozenset(
        (layout.name, field.name)
        for layout, field in _fields(layouts)
        if field.name in bodies or is_content(field.type)
    )


def _undecoded_rows(layouts: Iterable[m.Layout]) -> frozenset[type]:
    """Return the classes of rows with unknown content."""
    kinds = [field.type for _, field in _fields(layouts) if isinstance(field.type, m.Rows)]
    return frozenset(cls for kind in kinds for cls in (kind.opaque, kind.broken))
