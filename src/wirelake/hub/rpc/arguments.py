"""Typed arguments: the signature of a function is the schema of its arguments.

A struct is made of each signature once. Values by name (ESNP's DATA rows) are converted to it, a
JSON body is decoded to it directly; a missing, unknown or wrongly typed argument is refused with
its place in the message.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ..errors import HubError
from .call_types import Call

__all__ = ["Arguments", "ServiceDefinitionError", "read_arguments"]


class ServiceDefinitionError(Exception):
    """A function cannot be a service; the message says what to change."""


class Arguments:
    """The arguments of one function."""

    __slots__ = ("_call_at", "_decoder", "_struct", "names")

    def __init__(self, function: Callable[..., Any]):
        fields, self._call_at = _fields(function)
        self.names = tuple(field[0] for field in fields)
        try:
            self._struct = msgspec.defstruct(
                "Arguments", fields, forbid_unknown_fields=True, frozen=True, gc=False
            )
            self._decoder = msgspec.json.Decoder(self._struct)
        except TypeError as error:
            raise ServiceDefinitionError(f"{function.__name__}: {error}") from error

    @property
    def wants_call(self) -> bool:
        """Whether the function takes the `Call` itself."""
        return self._call_at is not None

    def read(self, given: Mapping[str, Any] | bytes, call: Call | None) -> tuple[Any, ...]:
        """Return the arguments in the function's order, from a JSON body or values by name.

        A function that takes only the call reads the body itself.
        """
        if self._call_at is None:
            return self._values(given)
        if not self.names:
            return (call,)
        values = self._values(given)
        return (*values[: self._call_at], call, *values[self._call_at :])

    def _values(self, given: Mapping[str, Any] | bytes) -> tuple[Any, ...]:
        try:
            if isinstance(given, bytes):
                return msgspec.structs.astuple(self._decoder.decode(given or b"{}"))
            return msgspec.structs.astuple(msgspec.convert(given, self._struct))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HubError("bad_arguments", str(error)) from None


_decoders: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}
"""JSON decoders by type of arguments."""


def read_arguments(given: Mapping[str, Any] | bytes, wanted: type[Any]) -> Any:
    """Return a JSON body, or values by name, as a struct."""
    try:
        if isinstance(given, bytes):
            decoder = _decoders.get(wanted)
            if decoder is None:
                decoder = _decoders[wanted] = msgspec.json.Decoder(wanted)
            return decoder.decode(given or b"{}")
        return msgspec.convert(given, wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HubError("bad_arguments", str(error)) from None


_PLAIN: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _fields(function: Callable[..., Any]) -> tuple[list[tuple[str, Any, Any]], int | None]:
    """Return (name, type, default) of each parameter, and the position of the call."""
    fields: list[tuple[str, Any, Any]] = []
    call_at = None
    hints = _hints(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not _PLAIN:
            raise ServiceDefinitionError(
                f"{function.__name__}: unsupported parameter {parameter.name!r}: "
                "no *, ** or / allowed"
            )
        kind = hints.get(parameter.name, Any)
        if kind is Call:
            if call_at is not None:
                raise ServiceDefinitionError(f"{function.__name__}: more than one Call parameter")
            call_at = len(fields)
            continue
        default = msgspec.NODEFAULT if parameter.default is parameter.empty else parameter.default
        fields.append((parameter.name, kind, default))
    return fields, call_at


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ServiceDefinitionError(
            f"{function.__name__}: {error}; annotations must be importable in its module"
        ) from error
