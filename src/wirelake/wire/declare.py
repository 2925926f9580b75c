"""From a layout class to a `model.Layout`, resolved for one dialect.

The annotations of the class, bases first, are the parts in wire order. A mistake in a declaration
raises `DeclarationError` and names the class and the field; it never yields a half-built layout.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import re
import sys
import threading
import types
import typing
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Annotated, Any, ClassVar, get_args, get_origin

import msgspec

from . import model as m
from . import types as t
from .rules import broken

__all__ = ["DeclarationError", "build", "snake_case"]

_INTERNAL = {"wire_name", "section", "unparsed"}
_TYPES = (m.Int, m.Varint, m.Float, m.Bool, m.Fixed, m.Blob, t.DynamicMark, t.RowsMark)


class DeclarationError(TypeError):
    """A layout class is not a valid declaration."""


def snake_case(name: str) -> str:
    """Return a class name in snake_case: `AuthSuccess` becomes `auth_success`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def build(cls: type, dialect: str = "seed") -> m.Layout:
    """Return the layout that a class declares in a dialect; always the same object."""
    with _ONE_THREAD:
        return _build(cls, dialect)


_ONE_THREAD = threading.RLock()
"""Only one thread builds a layout. `ast` of Python 3.11 also fails when two threads parse."""


@functools.cache
def _build(cls: type, dialect: str) -> m.Layout:
    if not (isinstance(cls, type) and issubclass(cls, t.Layout)):
        raise DeclarationError(f"{cls!r} is not a Layout class")
    outer = _OPEN.get()
    if cls in outer:
        raise DeclarationError(f"{cls.__qualname__} contains itself; use a dynamic value")
    token = _OPEN.set((*outer, cls))
    try:
        return _Builder(cls, dialect).build()
    finally:
        _OPEN.reset(token)


_OPEN: ContextVar[tuple[type, ...]] = ContextVar("_OPEN", default=())
"""The layouts that are being built, outermost first."""


# Python does not keep the string after an attribute, so the source is parsed. Once per module:
# `inspect.getsource` of a class parses all of its module in Python 3.11, and that for each of 77
# classes was a tenth of the time of a `wirelake read`.
@functools.cache
def field_docs(cls: type) -> dict[str, str]:
    """Return the strings that stand after the fields of a class, bases first."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, t.Layout) and base not in (t.Layout, t.Protobuf):
            docs |= _docs_in(_source(base)).get(base.__qualname__, {})
    return docs


def _source(cls: type) -> str:
    """Return the source of the module of a class; empty if there is none."""
    try:
        return inspect.getsource(sys.modules[cls.__module__])
    except (KeyError, OSError, TypeError):
        return ""  # the layout works without documentation


@functools.lru_cache(maxsize=16)
def _docs_in(source: str) -> dict[str, dict[str, str]]:
    """Return the strings behind the fields of the classes in a module, by qualified name."""
    found: dict[str, dict[str, str]] = {}

    def visit(node: ast.AST, outer: str) -> None:
        for each in ast.iter_child_nodes(node):
            match each:
                case ast.ClassDef(name=name, body=body):
                    found.setdefault(f"{outer}{name}", dict(_docs_of(body)))
                    visit(each, f"{outer}{name}.")
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    visit(each, f"{outer}{name}.<locals>.")
                case ast.stmt():
                    visit(each, outer)

    try:
        visit(ast.parse(source), "")
    except SyntaxError:
        return {}
    return found


def _docs_of(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for here, after in itertools.pairwise(body):
        match here, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())


class _Annotation:
    """One annotation, taken apart."""

    def __init__(self, hint: Any):
        self.derived = get_origin(hint) is ClassVar
        if self.derived:
            hint = get_args(hint)[0]
        self.marks: list[Any] = []
        self.optional = False
        self.base = self._unwrap(hint)

    def _unwrap(self, hint: Any) -> Any:
        while True:
            if get_origin(hint) is Annotated:
                base, *marks = get_args(hint)
                self.marks[:0] = marks
                hint = base
            elif get_origin(hint) in (typing.Union, types.UnionType):
                left = [a for a in get_args(hint) if a is not type(None)]
                self.optional |= len(left) < len(get_args(hint))
                if len(left) > 1:
                    return hint
                hint = left[0]
            else:
                return hint

    def get(self, kind: type) -> Any:
        """Return the outermost mark of a kind, or None."""
        return next((mark for mark in reversed(self.marks) if isinstance(mark, kind)), None)

    def all(self, kind: type) -> list[Any]:
        """Return all marks of a kind."""
        return [mark for mark in self.marks if isinstance(mark, kind)]


class _Builder:
    def __init__(self, cls: type[t.Layout], dialect: str):
        self.cls = cls
        self.dialect = dialect
        self.docs = field_docs(cls)
        self.parts: list[m.Part] = []
        self.bits: list[m.Bit] = []
        self.options: list[m.OptionField] = []
        try:
            self.hints = typing.get_type_hints(cls, include_extras=True)
        except (NameError, TypeError) as error:
            raise DeclarationError(f"{cls.__qualname__}: {error}") from error
        self.required = _required(cls)
        self.defaults = {each.name: each.default for each in msgspec.structs.fields(cls)}
        self.absent: list[tuple[str, object]] = []

    def error(self, name: str, why: str) -> DeclarationError:
        return DeclarationError(f"{self.cls.__qualname__}.{name}: {why}")

    def build(self) -> m.Layout:
        protobuf = issubclass(self.cls, t.Protobuf)
        for name in self.wire_order():
            if protobuf and name == "unknown":
                continue
            note = _Annotation(self.hints[name])
            only = note.get(t.Only)
            if only is not None and self.dialect not in only.dialects:
                if name in self.required:
                    raise self.error(name, "a field that some dialects lack needs a default")
                if not note.derived:
                    self.absent.append((name, self.defaults[name]))
                continue
            self.add(name, note, protobuf)
        self.close_bits("")
        layout = m.Layout(
            name=self.cls.wire_name or snake_case(self.cls.__name__),
            cls=self.cls,
            parts=tuple(self.parts),
            dialect=self.dialect,
            doc=inspect.getdoc(self.cls) or "",
            section=self.cls.section,
            protobuf=protobuf,
            unknown="unknown" if protobuf else "",
            unparsed=issubclass(self.cls, t.Protobuf) and self.dialect in self.cls.unparsed,
            absent=tuple(self.absent),
        )
        for name, why in broken(layout):
            raise self.error(name, why)
        return layout

    def wire_order(self) -> list[str]:
        names: dict[str, None] = {}
        for base in reversed(self.cls.__mro__):
            for name in inspect.get_annotations(base):
                if name.startswith("_"):
                    raise self.error(name, "a field name must not begin with _")
                if name not in _INTERNAL:
                    names[name] = None
        return list(names)

    # -- parts -------------------------------------------------------------------------------

    def add(self, name: str, note: _Annotation, protobuf: bool) -> None:
        width = note.get(t.BitWidth)
        if width is not None:
            self.add_bit(name, note, width)
            return
        self.close_bits(name)
        doc = self.docs.get(name, "")
        if note.derived:
            self.parts.append(self.derived(name, note, doc))
        elif (choice := note.get(t.Choice)) is not None:
            self.close_options()
            self.parts.append(self.body(name, choice, doc))
        elif (option := note.get(t.Option)) is not None:
            self.options.append(self.option(name, note, option, doc))
        elif (unknown := note.get(t.UnknownOptions)) is not None:
            self.parts.append(
                m.Options(tuple(self.options), unknown.entry_length, unknown.critical, name)
            )
            self.options = []
        else:
            self.parts.append(self.stored(name, note, doc, protobuf))

    def add_bit(self, name: str, note: _Annotation, width: t.BitWidth) -> None:
        names = note.get(t.Names)
        target = ""
        if width.role == "present":
            target = self.presence_target(name)
        self.bits.append(
            m.Bit(
                name=name,
                width=width.width,
                shift=0,
                role=width.role,  # type: ignore[arg-type]
                target=target,
                names=names.enum if names else None,
                closed=names.closed if names else False,
                flag=note.base is bool,
                doc=self.docs.get(name, ""),
            )
        )
        if sum(bit.width for bit in self.bits) % 8 == 0:
            self.close_bits(name)

    def presence_target(self, bit: str) -> str:
        for name, hint in self.hints.items():
            note = _Annotation(hint)
            when, only = note.get(t.When), note.get(t.Only)
            here = only is None or self.dialect in only.dialects
            if when is not None and when.bit == bit and here:
                return name
        raise self.error(bit, "no field refers to this presence bit with When")

    def close_bits(self, name: str) -> None:
        if not self.bits:
            return
        total = sum(bit.width for bit in self.bits)
        if total % 8:
            raise self.error(name or self.bits[-1].name, f"{total} bits do not fill whole bytes")
        shift, placed = total, []
        for bit in self.bits:
            shift -= bit.width
            placed.append(dataclasses.replace(bit, shift=shift))
        self.parts.append(m.BitGroup(total // 8, tuple(placed)))
        self.bits = []

    def close_options(self) -> None:
        if self.options:
            raise self.error(
                self.options[-1].name, "options need an UnknownOptions field after them"
            )

    def derived(self, name: str, note: _Annotation, doc: str) -> m.Part:
        for mark in note.marks:
            match mark:
                case t.Magic():
                    kind = m.Fixed(len(mark.value))
                    return m.Const(name, kind, mark.value, mark.code, doc)
                case t.LengthMark():
                    limit = dict(mark.limits).get(self.dialect, mark.limit)
                    return m.Length(name, mark.type, mark.minimum, limit, doc)
                case t.TagMark():
                    names = note.get(t.Names)
                    return m.Tag(name, mark.type, names.enum if names else None, doc)
                case t.TagConstMark():
                    return m.TagConst(name, mark.type, doc)
                case t.OptionBitsMark():
                    return m.OptionBits(name, mark.type, doc)
                case t.OptionsLengthMark():
                    return m.OptionsLength(name, mark.type, doc)
        raise self.error(name, "a ClassVar must be a magic value, a length, a tag or bits")

    def option(self, name: str, note: _Annotation, mark: t.Option, doc: str) -> m.OptionField:
        kind = self.wire_type(name, note)
        if not isinstance(kind, m.Int | m.Fixed | m.Nested):
            raise self.error(name, "an option has a fixed size")
        tags = self.option_tags(name, mark.on)
        secret = note.get(t.SecretMark) is not None
        return m.OptionField(name, mark.bit, kind, tags, doc, secret)

    def option_tags(self, name: str, on: tuple[type, ...]) -> tuple[int, ...]:
        for hint in self.hints.values():
            choice = _Annotation(hint).get(t.Choice)
            if choice is not None:
                return tuple(tag for tag, cls, _ in _cases(choice) if cls.layout in on)
        raise self.error(name, "options need a body in the same layout")

    def body(self, name: str, choice: t.Choice, doc: str) -> m.Body:
        alternatives = tuple(
            m.Alternative(tag, build(case.layout, self.dialect), direction, case.const, case.limit)
            for tag, case, direction in _cases(choice)
        )
        return m.Body(name, alternatives, choice.exact, doc)

    def stored(self, name: str, note: _Annotation, doc: str, protobuf: bool) -> m.Field:
        names, when, number = note.get(t.Names), note.get(t.When), note.get(t.Number)
        if protobuf != (number is not None):
            why = "missing Number" if protobuf else "Number is only for fields of a Protobuf"
            raise self.error(name, why)
        if note.optional and when is None and not protobuf:
            raise self.error(name, "a field that may be None needs When")
        stage = note.get(t.Stage)
        sizes: tuple[int, ...] = ()
        for mark in note.all(t.Sizes):
            if mark.dialect in ("", self.dialect):
                sizes = mark.sizes
        return m.Field(
            name=name,
            type=self.wire_type(name, note),
            doc=doc,
            secret=note.get(t.SecretMark) is not None,
            names=names.enum if names else None,
            closed=names.closed if names else False,
            when=when.bit if when else None,
            number=dict(number.others).get(self.dialect, number.number) if number else None,
            optional=protobuf and note.optional,
            sizes=sizes,
            stage=build(stage.layout, self.dialect) if stage else None,
        )

    # -- types -------------------------------------------------------------------------------

    def wire_type(self, name: str, note: _Annotation) -> m.Type:
        counted, to_end = note.get(t.Counted), note.get(t.ToEnd)
        if get_origin(note.base) is tuple and (counted or to_end):
            item = self.wire_type(name, _Annotation(get_args(note.base)[0]))
            count = self.resolve(counted.count) if counted else None
            return m.Many(item, count)
        for mark in reversed(note.marks):
            if isinstance(mark, t.ByDialect):
                mark = mark.resolve(self.dialect)  # noqa: PLW2901
            if isinstance(mark, t.DynamicMark):
                return self.dynamic(note.base, mark)
            if isinstance(mark, t.RowsMark):
                return self.rows(mark)
            if isinstance(mark, _TYPES):
                return typing.cast(m.Type, mark)
        if isinstance(note.base, type) and issubclass(note.base, t.Layout):
            return m.Nested(build(note.base, self.dialect))
        raise self.error(name, f"{note.base!r} has no wire type; use a type of wirelake.wire")

    def resolve(self, mark: Any) -> Any:
        if get_origin(mark) is Annotated:
            mark = get_args(mark)[1]
        return mark.resolve(self.dialect) if isinstance(mark, t.ByDialect) else mark

    def dynamic(self, cls: type, mark: t.DynamicMark) -> m.Dynamic:
        kinds = []
        for tag, kind in mark.kinds.items():
            kind = self.resolve(kind)  # noqa: PLW2901
            if isinstance(kind, t.PairsOf):
                kind = m.Pairs(self.resolve(kind.key), self.resolve(kind.count))  # noqa: PLW2901
            elif isinstance(kind, t.ItemsOf):
                kind = m.Items(self.resolve(kind.count))  # noqa: PLW2901
            kinds.append(m.DynamicKind(int(tag), mark.names(tag).name.lower(), kind))
        return m.Dynamic(
            cls, snake_case(cls.__name__), mark.tag, tuple(kinds), mark.max_depth, mark.max_nodes
        )

    def rows(self, mark: t.RowsMark) -> m.Rows:
        alternatives = tuple(
            m.Alternative(int(tag), build(cls, self.dialect)) for tag, cls in mark.kinds.items()
        )
        return m.Rows(mark.tag, mark.size, int(mark.end), alternatives, mark.opaque, mark.broken)


def _cases(choice: t.Choice) -> list[tuple[int, t.Case, m.Direction | None]]:
    found: list[tuple[int, t.Case, m.Direction | None]] = []
    directions: tuple[tuple[Any, m.Direction | None], ...] = (
        (choice.both, None),
        (choice.c2s, "c2s"),
        (choice.s2c, "s2c"),
    )
    for table, direction in directions:
        for tag, case in (table or {}).items():
            found.append((int(tag), case if isinstance(case, t.Case) else t.Case(case), direction))
    return found


def _required(cls: type[t.Layout]) -> set[str]:
    """Return the fields of a struct class that have no default."""
    fields, defaults = cls.__struct_fields__, cls.__struct_defaults__
    without = len(fields) - len(defaults)
    none = zip(fields[without:], defaults, strict=True)
    return {*fields[:without], *(name for name, value in none if value is msgspec.NODEFAULT)}
