"""Checks a `Meaning` against the layouts of its protocol.

A path that names no field has no value for any message, in silence: a mistyped name would give
tables without rows. So every message, field and row that a meaning names must exist in at least one
dialect, terms must have the type of their column, and kinds must be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from . import meaning as w
from . import model as m
from .declare import DeclarationError
from .walk import alternative_names

if TYPE_CHECKING:
    from .protocol import Protocol

__all__ = ["check_meaning"]

_Value: TypeAlias = Literal["number", "text", "bytes", "list", "layout", "values", "other"]

_NUMBERS: Final = ("message_id", "reply_to")
_TEXTS: Final = ("kind", "name", "target", "status", "reason", "client")
"""Columns of `messages`, by the type that their terms must have."""
_HINTS: Final = {("text", "number"): "; use Text or Values"}


def check_meaning(protocol: Protocol) -> None:
    """Raise DeclarationError when the meaning of a protocol does not fit its layouts."""
    _Check(protocol).run()


@dataclass(slots=True)
class _Member:
    """What a name in a path stands for: a field, a message or a stage."""

    value: _Value
    message: bool = False
    layouts: list[m.Layout] = field(default_factory=list)
    """Where the path continues, in each dialect."""
    item: _Member | None = None
    """Of a list: its items."""


class _Check:
    """The check of one protocol."""

    def __init__(self, protocol: Protocol):
        self._name = protocol.name
        self._meaning = protocol.meaning
        self._frames = [protocol.model(dialect) for dialect in protocol.dialects]
        self._top = _members(self._frames)
        self._messages = [name for name, member in self._top.items() if member.message]
        # A frame without a choice of bodies is itself the one message.
        self._messages = self._messages or [self._frames[0].name]
        for dialect in protocol.dialects:
            for layout in protocol.layouts(dialect):
                for part in layout.parts:
                    if isinstance(part, m.Field) and part.stage is not None:
                        stage = self._top.setdefault(part.stage.name, _Member("layout"))
                        stage.layouts.append(part.stage)
        self._rows = _row_kinds(self._frames)

    def run(self) -> None:
        """Check every part of the meaning."""
        meaning = self._meaning
        for column in _NUMBERS:
            self._expect("number", getattr(meaning, column), column)
        for column in _TEXTS:
            self._expect("text", getattr(meaning, column), column)
        for kind in _texts(meaning.kind):
            self._known("kind", kind, w.KINDS)
        for each in meaning.ids:
            self._expect("text", w.At(each.path), "ids")
        for path in meaning.published_ms:
            self._expect("number", w.At(path), "published_ms")
        for path in meaning.body:
            self._expect("bytes", w.At(path), "body")
        self._expect("bytes", meaning.body_row, "body_row")
        for path in meaning.sealed:
            if "[]" in path:
                self._expect("bytes", w.At(path), "sealed")
            else:
                self._known("path in sealed", path, meaning.body)
        if meaning.arguments is not None:
            self._check_arguments(meaning.arguments)
        for name in meaning.transformed:
            self._expect("number", w.At(name), "transformed")
        self._check_connections()
        if meaning.tunnels is not None:
            self._check_tunnels(meaning.tunnels)

    def _check_connections(self) -> None:
        meaning = self._meaning
        names = [*meaning.heartbeats, *meaning.sign_on.confirmed_by]
        self._expect("text", meaning.sign_on.part, "sign_on.part")
        if meaning.device is not None:
            names.append(meaning.device.message)
            for column in ("network_type", "isp", "phone_type"):
                self._expect("text", getattr(meaning.device, column), f"device.{column}")
        if meaning.resumption is not None:
            names.append(meaning.resumption.message)
            self._member(meaning.resumption.session)
        if meaning.key_selector is not None:
            self._member(meaning.key_selector.path)
        if meaning.cipher is not None:
            self._expect("number", w.At(meaning.cipher.number), "cipher.number")
            names += meaning.cipher.senders
        # The tables compare these with the column `name`, which may have names of its own.
        known = list(dict.fromkeys([*self._messages, *_texts(meaning.name)]))
        for name in names:
            self._known("message", name, known)

    def _check_arguments(self, arguments: w.Arguments) -> None:
        if arguments.rows is None:
            if not self._meaning.body:
                raise self._error("arguments need a body, or rows")
            return
        rows = arguments.rows
        if self._in_row(rows.row, rows.name).value != "text":
            raise self._error(f"arguments: {rows.name} of row {rows.row!r} is not text")
        if self._in_row(rows.row, rows.value).value != "values":
            raise self._error(f"arguments: {rows.value} of row {rows.row!r} describes no values")

    def _check_tunnels(self, tunnels: w.Tunnels) -> None:
        for name in sorted(tunnels.messages):
            self._known("message", name, self._messages)
        self._member(tunnels.inner)
        for name in (tunnels.instance_id, tunnels.tunnel_id):
            self._expect("number", w.At(f"{tunnels.carrier}.{name}"), "tunnels")
        for path in (tunnels.address, tunnels.port, tunnels.accepted):
            if path is not None:
                self._member(path)

    # -- terms ------------------------------------------------------------------------------------

    def _expect(self, wanted: _Value, term: w.Term | str | None, column: str) -> None:
        value = self._value(term)
        if value not in (wanted, None):
            hint = _HINTS.get((wanted, value), "")
            raise self._error(f"{column} is {value}; expected {wanted}{hint}")

    def _value(self, term: w.Term | str | None) -> _Value | None:
        """Return the type of a term's value; None for a term that never has one."""
        match term:
            case None:
                return None
            case w.At():
                return self._member(term.path).value
            case w.Named():
                for name in term.texts:
                    self._known("message", name, self._messages)
            case w.Values() | w.Text():
                self._expect("number", term.of, f"the argument of {type(term).__name__}")
            case w.Join():
                for each in term.terms:
                    self._expect("text", each, "an argument of Join")
            case w.First():
                return self._common(term.terms, "First")
            case w.RowField():
                self._check_where(term.row, term.where)
                return self._in_row(term.row, term.name).value
            case w.If():
                self._check_test(term.test)
                return self._common((term.then, term.otherwise), "If")
            case w.Is() | w.Equal() | w.HasRow() | w.Each():
                raise self._error(f"{type(term).__name__} is not a term of a column")
            case w.Name() | str():
                pass
        return "text"

    def _common(self, terms: Iterable[w.Term | str | None], what: str) -> _Value | None:
        found = [value for each in terms if (value := self._value(each)) is not None]
        if len(set(found)) > 1:
            raise self._error(f"the arguments of {what} are {', '.join(found)}; expected one type")
        return found[0] if found else None

    def _check_test(self, test: w.Is | w.Equal | w.HasRow) -> None:
        match test:
            case w.Is():
                self._expect("number", test.of, "the argument of Is")
            case w.Equal():
                for each in (test.left, test.right):
                    self._expect("number", each, "an argument of Equal")
            case w.HasRow():
                self._check_where(test.row, test.where)

    # -- names ------------------------------------------------------------------------------------

    def _member(self, path: str) -> _Member:
        """Return what a path leads to; `[]` behind a name stands for the items of a list."""
        members, around = self._top, ""
        for step in path.split("."):
            name = step.removesuffix("[]")
            found = self._find(members, name, around)
            if name != step:
                if found.item is None:
                    raise self._error(f"{path!r}: {name!r} is not a list")
                found = found.item
            members = _members(found.layouts)
            around = f"{'message' if found.message else 'field'} {name!r}"
        return found

    def _in_row(self, row: str, name: str) -> _Member:
        self._known("row", row, self._rows)
        return self._find(_members(self._rows[row]), name, f"row {row!r}")

    def _check_where(self, row: str, where: tuple[str, int] | None) -> None:
        self._known("row", row, self._rows)
        if where is not None:
            self._in_row(row, where[0])

    def _find(self, members: dict[str, _Member], name: str, around: str) -> _Member:
        what = f"field {name!r} in {around}" if around else f"message or field {name!r}"
        if not members:
            raise self._error(f"unknown {what}, which has no fields")
        if name not in members:
            raise self._error(f"unknown {what}; expected one of {', '.join(members)}")
        return members[name]

    def _known(self, what: str, name: str, known: Iterable[str]) -> None:
        if name not in known:
            raise self._error(f"unknown {what} {name!r}; expected one of {', '.join(known)}")

    def _error(self, text: str) -> DeclarationError:
        return DeclarationError(f"meaning of {self._name!r}: {text}")


# -- layouts --------------------------------------------------------------------------------------


def _members(layouts: Iterable[m.Layout]) -> dict[str, _Member]:
    """Return what a path may name in a layout: fields and, in a frame, messages. The layouts are
    one and the same in several dialects."""
    found: dict[str, _Member] = {}
    for layout in layouts:
        for name, member in _members_of(layout):
            if name in found:
                found[name].layouts += member.layouts
            else:
                found[name] = member
    return found


def _members_of(layout: m.Layout) -> Iterator[tuple[str, _Member]]:
    for part in layout.parts:
        match part:
            case m.Field():
                yield part.name, _typed(part.type)
            case m.BitGroup():
                for bit in part.bits:
                    if bit.role == "stored":
                        yield bit.name, _Member("number")
            case m.Options():
                for option in part.fields:
                    yield option.name, _typed(option.type)
            case m.Body():
                names = alternative_names(layout, part.alternatives)
                for alternative in part.alternatives:
                    inner = alternative.layout
                    yield names[inner.cls], _Member("layout", message=True, layouts=[inner])
            case _:
                pass


def _typed(kind: m.Type) -> _Member:
    match kind:
        case m.Int() | m.Varint() | m.Bool():
            return _Member("number")
        case m.Blob():
            return _Member("bytes" if kind.text is None else "text")
        case m.Fixed():
            return _Member("bytes")
        case m.Nested():
            return _Member("layout", layouts=[kind.layout])
        case m.Many():
            return _Member("list", item=_typed(kind.item))
        case m.Dynamic():
            return _Member("values")
        case _:
            return _Member("other")


def _row_kinds(frames: Iterable[m.Layout]) -> dict[str, list[m.Layout]]:
    """Return the layouts of each kind of row, in each dialect."""
    found: dict[str, list[m.Layout]] = {}
    for frame in frames:
        for part in frame.parts:
            if isinstance(part, m.Field) and isinstance(part.type, m.Rows):
                names = alternative_names(None, part.type.alternatives)
                for alternative in part.type.alternatives:
                    layout = alternative.layout
                    found.setdefault(names[layout.cls], []).append(layout)
    return found


def _texts(term: w.Term | str | None) -> Iterator[str]:
    """Yield the texts that a term chooses from."""
    match term:
        case str():
            yield term
        case w.Named() | w.Values():
            yield from term.texts.values()
            if term.default is not None:
                yield term.default
        case w.First():
            for each in term.terms:
                yield from _texts(each)
        case w.If():
            yield from _texts(term.then)
            yield from _texts(term.otherwise)
        case _:
            pass
