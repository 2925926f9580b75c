"""The types of a call: what a service gets and returns, its typed arguments, deferred replies.

A result is one of these, whatever the protocol of the call:

    dict, msgspec.Struct   ESNP: DATA rows by name; elsewhere: a JSON object
    bytes                  ESNP: a PAYLOAD row; elsewhere: the body as it is
    None                   an empty answer
    Reply                  both, or ESNP rows as they are

The signature of a function is the schema of its arguments (`Arguments`): values are converted and
checked by msgspec, and unknown names are refused.
"""

from __future__ import annotations

import inspect
import logging
import re
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from wirelake.wire.errors import unknown

from ..errors import HubError
from ..pubsub.subscriptions import Client
from .defect_log import DefectLog

__all__ = [
    "Answerer",
    "Arguments",
    "Call",
    "DeferredReply",
    "Reply",
    "Result",
    "ServiceDefinitionError",
    "ServiceError",
    "json_body",
    "read_arguments",
    "read_object",
    "signature_text",
]


_defects: Final = DefectLog(logging.getLogger(__name__))


class ServiceError(HubError):
    """Raised by a service to report a failure; the caller gets the text."""

    def __init__(self, text: str):
        super().__init__("failed", text)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with several parts."""

    data: dict[str, Any] | None = None
    """Values by name."""
    payload: bytes | None = None
    """Bytes. Beside `data`, a JSON body has them as `payload_base64`."""
    rows: tuple[Any, ...] = ()
    """Rows for ESNP callers; others do not get them."""


Result: TypeAlias = Mapping[str, Any] | list[Any] | bytes | Reply | msgspec.Struct | None
"""What a service may return. A stream becomes a list where the protocol cannot stream."""
Answerer: TypeAlias = Callable[[Result | HubError], None]
"""Called with the outcome of a call."""


class Call(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A call of a service: the connection, its protocol, and what was sent."""

    protocol: str
    """The name of the protocol."""
    connection: Any
    """The connection of the caller."""
    body: bytes = b""
    """The body; in ESNP, all PAYLOAD rows joined."""
    is_info: bool = False
    """ESNP: an INFO, not a REQUEST."""
    is_event: bool = False
    """Whether the caller expects no answer."""
    part: Callable[[Result], Awaitable[None]] | None = None
    """Sends one part of a stream; None where the parts are collected into one answer."""

    @property
    def client(self) -> Client | None:
        """The client of the caller; None before it has signed on."""
        client: Client | None = self.connection.client
        return client

    @property
    def rows(self) -> tuple[Any, ...]:
        """ESNP: the rows of all messages of the request."""
        return ()

    @property
    def payloads(self) -> tuple[bytes, ...]:
        """ESNP: the data of each PAYLOAD row."""
        return ()

    @property
    def timeout_s(self) -> float | None:
        """How long the caller waits, if it has said so."""
        return None

    @property
    def echo(self) -> Result:
        """A result that is the same as what was sent."""
        return self.body


class DeferredReply:
    """The answer to a request on a listener's fast path: known on return, or sent later.

    `take` is called with the outcome. If that happens before the listener returns, the answer is
    `known` and is written with those of other requests; otherwise the listener sets `late`, and
    the outcome goes to `answer_later`.
    """

    __slots__ = ("_answer_later", "known", "late", "outcome")

    def __init__(self, answer_later: Answerer):
        self._answer_later = answer_later
        self.known = False
        """Whether `outcome` is set."""
        self.late = False
        """Whether the listener has returned without the answer."""
        self.outcome: Result | HubError = None

    def take(self, outcome: Result | HubError) -> None:
        """Accept the outcome."""
        if self.late:
            self._answer_later(outcome)
        else:
            self.outcome, self.known = outcome, True


_encoder: Final = msgspec.json.Encoder()


def json_body(result: Result) -> bytes:
    """Return the JSON body of an answer; HubError if the result cannot be encoded."""
    # bytes unchanged: a service that encodes its own answers pays for no second encoding.
    if result is None:
        return b""
    if isinstance(result, bytes):
        return result
    if isinstance(result, Reply):
        return _reply_body(result)
    try:
        return _encoder.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        _defects.error(f"the result of a service cannot be encoded as JSON: {error}")
        raise HubError("internal") from error


def _reply_body(reply: Reply) -> bytes:
    if reply.data is None:
        return reply.payload or b""
    if reply.payload is None:
        return json_body(reply.data)
    return json_body({**reply.data, "payload_base64": reply.payload})


# -- arguments -----------------------------------------------------------------------------------


class ServiceDefinitionError(Exception):
    """A function cannot be a service; the message says what to change."""


UNREADABLE_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding the JSON of a peer raises; RecursionError for values nested too deeply."""


class Arguments:
    """The arguments of one function."""

    __slots__ = ("_call_at", "_decoder", "_struct", "names")

    def __init__(self, function: Callable[..., Any]):
        # A struct per function, made once: decoding JSON into it checks types and names in C,
        # without a dict in between.
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
        # Arguments are positional, so the call goes to its place in the signature.
        values = self._values(given)
        return (*values[: self._call_at], call, *values[self._call_at :])

    def _values(self, given: Mapping[str, Any] | bytes) -> tuple[Any, ...]:
        try:
            if isinstance(given, bytes):
                return msgspec.structs.astuple(self._decoder.decode(given or b"{}"))
            return msgspec.structs.astuple(msgspec.convert(given, self._struct))
        except UNREADABLE_JSON as error:
            raise HubError("bad_arguments", _argument_text(error, self.names)) from None


_object: Final = msgspec.json.Decoder(dict[str, Any])


def read_object(body: bytes) -> dict[str, Any]:
    """Return the values of a JSON body by name; HubError if it is no object."""
    try:
        return _object.decode(body or b"{}")
    except UNREADABLE_JSON as error:
        raise HubError("bad_arguments", _argument_text(error, ())) from None


_decoders: Final[dict[type[Any], msgspec.json.Decoder[Any]]] = {}
"""JSON decoders by type of arguments."""


def read_arguments(given: Mapping[str, Any] | bytes, kind: type[Any]) -> Any:
    """Return a JSON body, or values by name, as a struct."""
    try:
        if isinstance(given, bytes):
            decoder = _decoders.get(kind)
            if decoder is None:
                decoder = _decoders[kind] = msgspec.json.Decoder(kind)
            return decoder.decode(given or b"{}")
        return msgspec.convert(given, kind)
    except UNREADABLE_JSON as error:
        names = tuple(getattr(kind, "__struct_fields__", ()))
        raise HubError("bad_arguments", _argument_text(error, names)) from None


_PROBLEM: Final = re.compile(
    r"Object missing required field `(?P<missing>[^`]*)`"
    r"|Object contains unknown field `(?P<unknown>[^`]*)`"
    r"|(?P<problem>.*) - at `\$\.(?P<argument>[^`]*)`",
    re.DOTALL,
)
"""What msgspec says of an object."""


def _argument_text(error: Exception, names: Sequence[str]) -> str:
    """Return the text for invalid arguments, which names the argument."""
    if isinstance(error, RecursionError):
        return "invalid arguments: nested too deeply"
    found = _PROBLEM.fullmatch(str(error))
    if found is None:
        return f"invalid arguments: {error}"
    if found["missing"] is not None:
        return f"missing argument {found['missing']!r}"
    if found["unknown"] is not None:
        return unknown("argument", found["unknown"], names)
    problem = found["problem"].replace("`", "")
    return f"argument {found['argument']!r}: {problem[:1].lower()}{problem[1:]}"


def signature_text(function: Callable[..., Any]) -> str:
    """Return the arguments and the result of a function as they are written, without the `Call`."""
    signature = inspect.signature(function)
    hints = _hints(function)
    shown = [
        parameter.replace(annotation=_written(parameter.annotation))
        for name, parameter in signature.parameters.items()
        if hints.get(name) is not Call
    ]
    result = signature.return_annotation
    return str(signature.replace(parameters=shown, return_annotation=_written(result)))


def _written(annotation: Any) -> Any:
    """Return an annotation that is shown as it is written, also if it is a string."""
    return _Text(annotation) if isinstance(annotation, str) else annotation


class _Text:
    def __init__(self, text: str):
        self._text = text

    def __repr__(self) -> str:
        return self._text


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
        # Without an annotation any value is accepted. `Call` is recognised by its type, whatever
        # the parameter is called, and is no argument of the caller.
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
