"""The protocol `esnp`: layout, meaning, dialects, revisions and port.

The meaning is what tables, filters and the hub know about a message: flags determine the kind, rows
the rest (section 3 of `docs/decisions/esnp.md`). All numbers in it come from the layout.
"""

from __future__ import annotations

from typing import get_args

from wirelake.wire import Protocol
from wirelake.wire.meaning import (
    Equal,
    HasRow,
    If,
    Join,
    Meaning,
    Named,
    NamedRows,
    RowField,
    SignOn,
)
from wirelake.wire.protocol import Revision

from ..hub_calls import AUTH, hub_arguments
from .layout import AddressKind, Dialect, FlagType, Message

__all__ = [
    "MEANING",
    "PROTOCOL",
]


# -- meaning ---------------------------------------------------------------------------------------


def _flag(flag: FlagType) -> HasRow:
    return HasRow("flag", ("value", int(flag)))


def _address(kind: AddressKind) -> RowField:
    return RowField("address", "value", ("kind", int(kind)))


_TRACE_INFO = _flag(FlagType.TRACE_INFO)
_RESP = _flag(FlagType.RESP)
_REQUEST = _flag(FlagType.REQUEST)
_INFO = _flag(FlagType.INFO)

# A trace report has the flags of a response and must not end a call, so it is looked for first. Of
# a long reply only the last part, whose number equals its maximum, ends the call (section 3).
_LAST = Equal(RowField("seq_no", "current"), RowField("seq_no", "maximum"))
_ANSWER = If(HasRow("seq_no"), If(_LAST, "response", "part"), "response")
_OTHER = If(_REQUEST, "request", If(_INFO, "request", "event"))

MEANING = Meaning(
    kind=If(_TRACE_INFO, "trace", If(_RESP, _ANSWER, _OTHER)),
    name=If(
        _TRACE_INFO,
        "trace_info",
        If(
            _RESP,
            If(_INFO, "info_response", "response"),
            If(_REQUEST, "request", If(_INFO, "info", Named({}, "event"))),
        ),
    ),
    message_id=RowField("message_id", "value"),
    reply_to=RowField("source_message_id", "value"),
    target=Join("/", _address(AddressKind.SERVICE), _address(AddressKind.OP)),
    status=If(_TRACE_INFO, None, If(_RESP, If(HasRow("error"), "error", "ok"))),
    reason=RowField("error", "value"),
    body_row=RowField("payload", "data"),
    # A request in parts has its address in the first; the others have only the same id.
    sign_on=SignOn(targets=(AUTH.target,), part=If(_RESP, None, If(HasRow("seq_no"), "part"))),
    arguments=hub_arguments("names", NamedRows("data", "name", "value")),
)
"""The meaning of ESNP messages."""


# -- protocol --------------------------------------------------------------------------------------


PROTOCOL = Protocol(
    name="esnp",
    title="ESNP: service calls and events",
    frame=Message,
    dialects=get_args(Dialect),
    port=9600,
    binding="wirelake.protocols.esnp.binding:BINDING",
    meaning=MEANING,
    revisions={
        "frames": Revision(
            "wirelake.protocols.esnp.message:frames_problems", unnamed=(FlagType.ASYNC.name,)
        ),
        "lines": Revision("wirelake.protocols.esnp.message:lines_problems"),
    },
)
"""ESNP, dialects seed and go."""
