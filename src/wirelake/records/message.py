"""One decoded message as a row of `messages`: the evaluation of a protocol's `Meaning`.

    describe = Describer(protocol, dialect)
    columns = describe(frame, opened={"message": inner})

This module finds the columns that depend on the message alone; the reader adds times, sizes and
positions. The columnar reader evaluates the same terms on columns
(`wirelake.columnar.decode.meaning`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from wirelake.protocols import registry
from wirelake.wire import meaning as w
from wirelake.wire import model as m
from wirelake.wire.protocol import Protocol
from wirelake.wire.runtime import int64_of
from wirelake.wire.views.arrow import readable, to_var_rows
from wirelake.wire.walk import alternative_names

from .arguments import Values, argument_reader
from .structs import stages, struct_value

__all__ = ["SEMANTIC", "Describer"]

SEMANTIC: Final = (
    "kind",
    "name",
    "message_id",
    "reply_to",
    "target",
    "status",
    "reason",
    "client",
)
"""Columns for which `Meaning` has a term of the same name."""

_NAMES_NOTHING: Final = (None, 0, "", "0")
"""Values of fields that are absent, empty or zero."""

_Getter = Callable[["_Frame"], Any]


class _Frame:
    """A message under evaluation."""

    __slots__ = ("frame", "name", "opened")

    def __init__(self, frame: Any, name: str | None, opened: Mapping[str, Any]):
        self.frame = frame
        self.name = name
        self.opened = opened


class Describer:
    """Evaluates the meaning of a protocol's messages, one at a time."""

    def __init__(self, protocol: Protocol, dialect: str | None = None, *, reveal: bool = False):
        self.protocol = protocol
        self.dialect = protocol.dialect(dialect)
        self._reveal = reveal
        self._model = protocol.model(self.dialect)
        self._names = (
            {}
            if self._model.body is None
            else alternative_names(self._model, self._model.body.alternatives)
        )
        meaning = protocol.meaning
        self._columns = {
            column: self._getter(term)
            for column in SEMANTIC
            if (term := getattr(meaning, column)) is not None
        }
        self._identifying = [
            self._columns[column]
            for column in ("message_id", "reply_to", "target", "client")
            if _reads_fields(getattr(meaning, column))
        ]
        self._row_classes: tuple[str, frozenset[type]] | None = None
        if any(isinstance(p, m.Field) and isinstance(p.type, m.Rows) for p in self._model.parts):
            field, classes = self._rows()
            self._row_classes = field, frozenset(classes.values())
        self._ids = [self._each(each.path) for each in meaning.ids]
        self._bodies = [self._path(path) for path in meaning.body]
        self._sealed = [self._path(path) for path in meaning.sealed if "[]" not in path]
        self._sealed_lists = [
            self._items(*path.split("[].")) for path in meaning.sealed if "[]" in path
        ]
        self._carrier = self._path(meaning.tunnels.carrier) if meaning.tunnels else None
        self._key = self._path(meaning.key_selector.path) if meaning.key_selector else None
        self._body_row = None if meaning.body_row is None else self._getter(meaning.body_row)
        self._arguments = argument_reader(protocol)
        rows = None if meaning.arguments is None else meaning.arguments.rows
        self._argument_rows = None if rows is None else self._named_rows(rows)
        self._sign_on_targets = frozenset(meaning.sign_on.targets)
        self._sign_on_part = self._getter(meaning.sign_on.part)
        self._carried: Describer | None = None
        """Describes the messages in tunnels; created when the first one is seen."""

    def __call__(
        self,
        frame: Any,
        opened: Mapping[str, Any] | None = None,
        *,
        body: bytes | None = None,
        sealed: bool = False,
    ) -> dict[str, Any]:
        """Return the columns that the message determines, with its struct under the protocol's
        name.

        `frame` is None for a message without one (in a tunnel). `opened` holds what stages yielded,
        by name. `body` is the plaintext of a sealed body; a body that stays `sealed` is null. The
        caller decides whether `sealable` bytes are sealed. Without `reveal`, a message that may
        hold credentials has no body, and no other content of the application.
        """
        seen = _Frame(frame, self.name_of(frame), {} if opened is None else opened)
        row: dict[str, Any] = dict.fromkeys(SEMANTIC)
        for column, get in self._columns.items():
            value = get(seen)
            if isinstance(value, str):
                value = readable(value)
            elif isinstance(value, int):
                value = int64_of(value)  # Spark has no unsigned types
            row[column] = value
        row["ids"] = self._found_ids(seen)
        if body is None and not sealed:
            body = self._body(seen)
        if self._arguments is not None and row["target"] in self._arguments.targets:
            values = self._argument_values(seen, body)
            if row["client"] is None:
                row["client"] = self._arguments.client(row["kind"], row["target"], values)
            if row["ids"] is None:
                row["ids"] = self._arguments.ids(row["target"], values)
        content = self._reveal or not self._has_credentials(seen, row["target"])
        row["body"], row["sealed"] = body if content else None, sealed
        row["body_bytes"] = None if body is None else len(body)
        row[self.protocol.name] = struct_value(
            self.protocol, self.dialect, frame, seen.opened, reveal=self._reveal, content=content
        )
        return row

    def has_credentials(self, frame: Any, opened: Mapping[str, Any] | None = None) -> bool:
        """Return whether a message, or the one that it carries in a tunnel, may hold credentials of
        a sign-on in its content."""
        carrier, tunnels = self.carrier(frame), self.protocol.meaning.tunnels
        if carrier is not None and tunnels is not None:
            if self._carried is None:
                self._carried = Describer(registry.find(tunnels.protocol), self.dialect)
            message = getattr(carrier, tunnels.message)
            if self._carried.has_credentials(None, {tunnels.message: message}):
                return True
        seen = _Frame(frame, self.name_of(frame), {} if opened is None else opened)
        find_target = self._columns.get("target")
        return self._has_credentials(seen, None if find_target is None else find_target(seen))

    def _has_credentials(self, seen: _Frame, target: str | None) -> bool:
        if target is None:
            return self._sign_on_part(seen) is not None
        return target in self._sign_on_targets

    def name_of(self, frame: Any) -> str | None:
        """Return the name of the frame's body, or of the frame when it has no choice of bodies."""
        if frame is None:
            return None
        body = self._model.body
        if body is None:
            return self._model.name
        value = frame if self._model.transparent else getattr(frame, body.name)
        return self._names[type(value)]

    def identifies(self, frame: Any) -> bool:
        """Return whether a frame names a message, a target, a client or notifications, or has a
        body. Zeros name nothing, and neither does a message with rows of unknown types: arbitrary
        bytes are such rows, and the rows of a message behind them may follow."""
        if self._row_classes is not None:
            field, classes = self._row_classes
            if any(type(row) not in classes for row in getattr(frame, field)):
                return False
        seen = _Frame(frame, self.name_of(frame), {})
        return (
            any(get(seen) not in _NAMES_NOTHING for get in self._identifying)
            or bool(self._found_ids(seen))
            or bool(self._body(seen))
        )

    def sealable(self, frame: Any) -> bytes | None:
        """Return the bytes of the message that may be encrypted, or None."""
        seen = _Frame(frame, None, {})
        for get in self._sealed:
            value = get(seen)
            if value is not None:
                assert isinstance(value, bytes)
                return value
        return None

    def sealable_items(self, frame: Any) -> list[bytes] | None:
        """Return the bytes of each item of the message's list that may be encrypted, or None."""
        for steps, name in self._sealed_lists:
            items = _walk(frame, steps)
            if items is not None:
                return [getattr(item, name) for item in items]
        return None

    def with_items(self, frame: Any, contents: Sequence[bytes]) -> Any:
        """Return the message with other bytes in the items that `sealable_items` returned."""
        for steps, name in self._sealed_lists:
            items = _walk(frame, steps)
            if items is not None:
                new = tuple(
                    msgspec.structs.replace(item, **{name: content})
                    for item, content in zip(items, contents, strict=True)
                )
                return _replaced(frame, steps or [], new)
        return frame

    def carrier(self, frame: Any) -> Any:
        """Return the body of a frame that carries a message of a tunnel, or None."""
        return None if self._carrier is None else self._carrier(_Frame(frame, None, {}))

    def key_name(self, frame: Any) -> str | None:
        """Return the value that selects the keys of the connection, as key logs write it, or
        None."""
        if self._key is None:
            return None
        value = self._key(_Frame(frame, None, {}))
        if isinstance(value, str):
            # As tables show it: both readers keep the name, and a saved state has UTF-8 alone.
            return readable(value)
        return value.hex() if isinstance(value, bytes) else value

    # -- columns without a term --------------------------------------------------------------

    def _found_ids(self, seen: _Frame) -> list[str] | None:
        for get in self._ids:
            found = get(seen)
            if found is not None:
                return [readable(each) for each in found]
        return None

    def _body(self, seen: _Frame) -> bytes | None:
        for get in self._bodies:
            value = get(seen)
            if value is not None:
                assert isinstance(value, bytes)
                return value
        if self._body_row is not None:
            found = self._body_row(seen)
            assert found is None or isinstance(found, bytes)
            return found
        return None

    def _argument_values(self, seen: _Frame, body: bytes | None) -> Values:
        assert self._arguments is not None
        if self._argument_rows is None:
            return self._arguments.of_body(body)
        return self._arguments.of_rows(self._argument_rows(seen))

    def _named_rows(self, rows: w.NamedRows) -> _Getter:
        """Return a getter of the names and values of rows."""
        field, classes = self._rows()
        cls = classes[rows.row]
        kinds = (
            part.type
            for layout in self.protocol.layouts(self.dialect)
            if layout.cls is cls
            for part in layout.parts
            if isinstance(part, m.Field) and part.name == rows.value
        )
        kind = next(kinds)
        assert isinstance(kind, m.Dynamic)
        wanted = argument_reader(self.protocol)
        assert wanted is not None

        def named(seen: _Frame) -> list[tuple[str, list[dict[str, Any]]]]:
            listed = [row for row in getattr(seen.frame, field) if type(row) is cls]
            found = ((getattr(row, rows.name), getattr(row, rows.value)) for row in listed)
            return [
                (name, to_var_rows(kind, value)) for name, value in found if name in wanted.names
            ]

        return named

    # -- terms -------------------------------------------------------------------------------
    #
    # A term is compiled once, to a closure, when the describer is created. Interpreting terms for
    # each message would match on their types again and again; the live hub calls this per message.

    def _getter(self, term: w.Term | str | None) -> _Getter:
        match term:
            case None | str():
                return lambda _: term
            case w.At():
                return self._path(term.path)
            case w.Each():
                return self._each(term.path)
            case w.Name():
                return lambda seen: seen.name
            case w.Named():
                return lambda seen: (
                    None if seen.name is None else term.texts.get(seen.name, term.default)
                )
            case w.Values():
                return _values(term, self._getter(term.of))
            case w.Text():
                return _text(self._getter(term.of))
            case w.First():
                return _first([self._getter(each) for each in term.terms])
            case w.Join():
                return _join(term.separator, [self._getter(each) for each in term.terms])
            case w.RowField():
                return self._row_field(term)
            case w.HasRow():
                return self._has_row(term)
            case w.Is():
                of = self._getter(term.of)
                return lambda seen: of(seen) in term.numbers
            case w.Equal():
                return _equal(self._getter(term.left), self._getter(term.right))
            case w.If():
                return _if(*(self._getter(each) for each in (term.test, term.then, term.otherwise)))

    # -- paths -------------------------------------------------------------------------------

    def _path(self, path: str) -> _Getter:
        """Return a getter of the field at a path. It returns None for messages without that
        field."""
        first, *rest = path.split(".")
        stage = next((s for s in stages(self.protocol, self.dialect) if s.name == first), None)
        if stage is not None:
            steps = _steps(stage, rest)
            return lambda seen: _walk(seen.opened.get(first), steps)
        steps = _steps(self._model, [first, *rest])
        return lambda seen: _walk(seen.frame, steps)

    def _items(self, path: str, name: str) -> tuple[list[_Step] | None, str]:
        """Return the steps to a list, and the name of a field of its items."""
        return _steps(self._model, path.split(".")), name

    def _each(self, path: str) -> _Getter:
        """Return a getter of all values at a path through a list."""
        before, listed, after = path.partition("[]")
        get = self._path(before)
        name = after.lstrip(".")

        def each(seen: _Frame) -> list[Any] | None:
            value = get(seen)
            if value is None:
                return None
            if not listed:
                return [value]
            return [getattr(item, name) for item in value] if name else list(value)

        return each

    # -- rows --------------------------------------------------------------------------------

    def _rows(self) -> tuple[str, dict[str, type]]:
        """Return the field that holds rows, and the class of each kind of row."""
        for part in self._model.parts:
            if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
                names = alternative_names(None, part.type.alternatives)
                return part.name, {name: cls for cls, name in names.items()}
        raise ValueError(f"{self.protocol.name} has no rows")

    def _row_field(self, term: w.RowField) -> _Getter:
        found = self._first_row(term.row, term.where)
        return lambda seen: None if (row := found(seen)) is None else getattr(row, term.name)

    def _has_row(self, term: w.HasRow) -> _Getter:
        found = self._first_row(term.row, term.where)
        return lambda seen: found(seen) is not None

    def _first_row(self, kind: str, where: tuple[str, int] | None) -> _Getter:
        rows, classes = self._rows()
        cls = classes[kind]

        def first(seen: _Frame) -> Any:
            for row in getattr(seen.frame, rows):
                if type(row) is cls and (where is None or getattr(row, where[0]) == where[1]):
                    return row
            return None

        return first


# -- paths -----------------------------------------------------------------------------------

_Step = tuple[str | None, type | None]
"""An attribute, and the class that its value must have."""


def _steps(layout: m.Layout, names: list[str]) -> list[_Step] | None:
    """Return the steps from a value of the layout to a field; None when the dialect has no such
    field."""
    steps: list[_Step] = []
    for name in names:
        found = _step(layout, name)
        if found is None:
            return None
        step, inner = found
        steps.append(step)
        if inner is not None:
            layout = inner
    return steps


def _step(layout: m.Layout, name: str) -> tuple[_Step, m.Layout | None] | None:
    body = layout.body
    if body is not None:
        for cls, alternative in alternative_names(layout, body.alternatives).items():
            if alternative == name:
                inner = next(a.layout for a in body.alternatives if a.layout.cls is cls)
                return (None if layout.transparent else body.name, cls), inner
    for part in layout.parts:
        match part:
            case m.Field() if part.name == name:
                return (name, None), part.type.layout if isinstance(part.type, m.Nested) else None
            case m.BitGroup() if any(bit.name == name for bit in part.bits):
                return (name, None), None
            case m.Options():
                for option in part.fields:
                    if option.name == name:
                        kind = option.type
                        return (name, None), kind.layout if isinstance(kind, m.Nested) else None
            case _:
                pass
    return None


def _walk(value: Any, steps: list[_Step] | None) -> Any:
    if steps is None:
        return None
    for name, cls in steps:
        if value is None:
            return None
        if name is not None:
            value = getattr(value, name)
        if cls is not None and type(value) is not cls:
            return None
    return value


def _replaced(value: Any, steps: Sequence[_Step], new: Any) -> Any:
    """Return a copy of a value with another one at the end of the steps."""
    if not steps:
        return new
    (name, _), *rest = steps
    if name is None:
        return _replaced(value, rest, new)
    return msgspec.structs.replace(value, **{name: _replaced(getattr(value, name), rest, new)})


# -- terms -----------------------------------------------------------------------------------


def _reads_fields(term: w.Term | str | None) -> bool:
    """Return whether the value of a term is in the message; else its name alone determines it."""
    match term:
        case w.At() | w.Each() | w.RowField():
            return True
        case w.Values() | w.Text():
            return _reads_fields(term.of)
        case w.First() | w.Join():
            return any(map(_reads_fields, term.terms))
        case w.If():
            return _reads_fields(term.then) or _reads_fields(term.otherwise)
        case _:
            return False


def _values(term: w.Values, of: _Getter) -> _Getter:
    def get(seen: _Frame) -> str | None:
        value = of(seen)
        return None if value is None else term.text_of(value)

    return get


def _text(of: _Getter) -> _Getter:
    return lambda seen: None if (value := of(seen)) is None else str(int(value))


def _first(getters: list[_Getter]) -> _Getter:
    def get(seen: _Frame) -> Any:
        for each in getters:
            value = each(seen)
            if value is not None:
                return value
        return None

    return get


def _join(separator: str, getters: list[_Getter]) -> _Getter:
    def get(seen: _Frame) -> str | None:
        found = [value for each in getters if (value := each(seen)) is not None]
        return separator.join(found) if found else None

    return get


def _equal(left: _Getter, right: _Getter) -> _Getter:
    def get(seen: _Frame) -> bool:
        value = left(seen)
        return value is not None and value == right(seen)

    return get


def _if(test: _Getter, then: _Getter, otherwise: _Getter) -> _Getter:
    return lambda seen: then(seen) if test(seen) else otherwise(seen)
