"""The same content as msgspec structs, for msgspec's own msgpack.

For each layout a struct with the same fields and plain types; where several may stand (bodies,
rows, values of a `Var`) they are told apart by a number. Nothing is left to a plain `dict` or
`Any`: what is decoded is checked and typed as ours is. Two forms are timed:

    map      fields by name, msgspec's default
    array    fields by position, which is the smallest and fastest that msgpack can be
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.tny import layout as tny
from wirelake.wire import Layout
from wirelake.wire.types import Only

from .corpus import Sample

__all__ = ["Mirror"]

_VAR_KINDS: dict[esnp.VarType, Any] = {
    esnp.VarType.BOOL: bool,
    **{kind: int for kind in esnp.VarType if "INT" in kind.name},
    esnp.VarType.FLOAT32: float,
    esnp.VarType.FLOAT64: float,
    esnp.VarType.LEN_BYTES: bytes,
    esnp.VarType.LEN_STRING: str,
    esnp.VarType.MAP: "tuple[tuple[str, AnyVar], ...]",
    esnp.VarType.LIST: "tuple[AnyVar, ...]",
}
"""What each kind of `Var` holds; Null holds nothing."""


class Mirror:
    """The structs of one protocol in one form, and how to get there from our messages."""

    def __init__(self, name: str, *, array: bool):
        self.array = array
        self._structs: dict[type, type[msgspec.Struct]] = {}
        self._vars = self._var_structs() if name == "esnp" else {}
        encoder = msgspec.msgpack.Encoder()
        self.encode = encoder.encode
        self._decoders = {
            direction: msgspec.msgpack.Decoder(self._type(hint))
            for direction, hint in _TOP[name].items()
        }

    def decoder(self, direction: str | None) -> msgspec.msgpack.Decoder[Any]:
        """What reads the messages of a direction."""
        return self._decoders[direction]

    def of(self, sample: Sample) -> Any:
        """The message of a sample as structs of this form."""
        return self._value(sample.message, sample.inner)

    # -- structs -----------------------------------------------------------------------------

    def _struct(self, cls: type[Layout]) -> type[msgspec.Struct]:
        if cls not in self._structs:
            hints = typing.get_type_hints(cls, include_extras=True)
            names = [name for name in cls.__struct_fields__ if _occurs(name, hints[name])]
            stored = [(name, self._type(hints[name])) for name in names]
            if cls is tny.Envelope:
                stored[-1] = ("content", self._struct(tny.Message))
            self._structs[cls] = self._make(cls.__name__, stored, len(self._structs))
        return self._structs[cls]

    def _make(
        self, name: str, fields: list[tuple[str, Any]], tag: int, namespace: Any = None
    ) -> type[msgspec.Struct]:
        return msgspec.defstruct(
            name,
            fields,
            tag=tag,
            tag_field="is",
            array_like=self.array,
            frozen=True,
            gc=False,
            module=namespace or __name__,
        )

    def _type(self, hint: Any) -> Any:
        """A plain type with our layouts replaced."""
        if get_origin(hint) is Annotated:
            return self._type(get_args(hint)[0])
        if hint is esnp.Var:
            return self._any_var
        if isinstance(hint, type) and issubclass(hint, Layout):
            return self._struct(hint)
        if get_origin(hint) in (Union, types.UnionType):
            return functools.reduce(lambda a, b: a | b, map(self._type, get_args(hint)))
        if get_origin(hint) is tuple:
            return tuple[self._type(get_args(hint)[0]), ...]  # type: ignore[misc]
        return hint

    def _var_structs(self) -> dict[int, type[msgspec.Struct]]:
        """One struct for each kind of `Var`; containers hold the union of all of them."""
        module = types.ModuleType(f"{__name__}_{'array' if self.array else 'map'}")
        sys.modules[module.__name__] = module
        made = {
            int(kind): self._make(
                f"Var{kind.name}", [("value", holds)], int(kind), namespace=module.__name__
            )
            for kind, holds in _VAR_KINDS.items()
        }
        made[0] = self._make("VarNULL", [], 0)
        self._any_var = functools.reduce(lambda a, b: a | b, made.values())  # type: ignore[arg-type,return-value]
        module.__dict__["AnyVar"] = self._any_var
        return made

    # -- values ------------------------------------------------------------------------------

    def _value(self, value: Any, inner: Any = None) -> Any:
        if isinstance(value, esnp.Var):
            return self._var(value)
        if isinstance(value, tuple):
            return tuple(self._value(item) for item in value)
        if not isinstance(value, Layout):
            return value
        cls = type(value)
        fields = {name: getattr(value, name) for name in self._struct(cls).__struct_fields__}
        if cls is tny.Envelope:
            return self._struct(cls)(**fields | {"content": self._value(inner)})
        return self._struct(cls)(
            **{name: self._value(item, inner) for name, item in fields.items()}
        )

    def _var(self, var: esnp.Var) -> Any:
        if var.type == esnp.VarType.NULL:
            return self._vars[0]()
        value: Any = var.value
        if var.type == esnp.VarType.MAP:
            value = tuple((key, self._var(item)) for key, item in value)
        elif var.type == esnp.VarType.LIST:
            value = tuple(self._var(item) for item in value)
        return self._vars[var.type](value)


def _occurs(name: str, hint: Any) -> bool:
    """Whether the corpus has this field: it is in the default dialect, and nothing is unknown."""
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    elsewhere = any(isinstance(mark, Only) and "seed" not in mark.dialects for mark in marks)
    return not elsewhere and name not in {"unknown", "unknown_options"}


_TOP: dict[str, dict[str | None, Any]] = {
    "comet": {"c2s": comet.Command, "s2c": comet.Reply},
    "tny": {None: tny.Packet},
    "relay": {None: tny.RelayPacket},
    "magline": {None: magline.Frame},
    "esnp": {None: esnp.Message},
}
"""For each protocol: direction -> what a message may be."""
