"""The other end of an ESNP playbook: messages by hand, and none of the rules.

`book` is a dialogue with one session; its messages are rows, written as the documents list them:

    m(REQUEST, MessageId(value=7), to("test", "add"), data("a", 1))

`Taking` keeps the calls that a session hands over, so that a playbook can answer them later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.playbooks.playbook import EmitsKind, Pair, Playbook

from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Data,
    Error,
    Flag,
    FlagType,
    Message,
    MessageId,
    Row,
    SourceMessageId,
    Var,
    VarType,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.protocol import PROTOCOL
from wirelake.protocols.esnp.session import Call, EsnpSession, Requested
from wirelake.protocols.sansio import Closed, Event, Failed, Role

CODECS: dict[str, Any] = {name: PROTOCOL.codec(name) for name in PROTOCOL.dialects}

TRACE = Flag(value=FlagType.TRACE)
TRACE_INFO = Flag(value=FlagType.TRACE_INFO)
RESP = Flag(value=FlagType.RESP)
REQUEST = Flag(value=FlagType.REQUEST)
INFO = Flag(value=FlagType.INFO)
EVENT = Flag(value=FlagType.EVENT)
ASYNC = Flag(value=FlagType.ASYNC)
END = b"\0\0\0\0"

_FOLDER = Path(__file__).parents[2] / "vectors"


def lines(name: str) -> dict[str, dict[str, Any]]:
    """The lines of a file of vectors, by name; of several with one name the last."""
    text = (_FOLDER / name).read_text("utf-8")
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


# -- messages --------------------------------------------------------------------------------


def m(*rows: Row | tuple[Row, ...]) -> Message:
    """A message of these rows; a tuple among them is several."""
    flat: list[Row] = []
    for row in rows:
        flat += row if isinstance(row, tuple) else (row,)
    return Message(rows=tuple(flat))


def mid(number: int) -> MessageId:
    """MESSAGE_ID."""
    return MessageId(value=number)


def smid(number: int) -> SourceMessageId:
    """SOURCE_MESSAGE_ID."""
    return SourceMessageId(value=number)


def to(service: str, op: str) -> tuple[Row, ...]:
    """The two ADDRESS rows that a service is called by."""
    return (
        Address(kind=AddressKind.SERVICE, value=service),
        Address(kind=AddressKind.OP, value=op),
    )


def data(name: str, value: int) -> Data:
    """A DATA row with an Int32."""
    return Data(name=name, value=Var(type=VarType.INT32, value=value))


def err(text: str) -> Error:
    """An ERROR row."""
    return Error(value=text)


def raw(message: Message, dialect: str = "seed") -> bytes:
    """The bytes of a message, in the order of its rows."""
    encoded: bytes = CODECS[dialect].encode_message(message)
    return encoded


def failed(code: str, **having: Any) -> EmitsKind:
    """A `Failed` with this code."""
    return EmitsKind.of(Failed, code=code, **having)


def closed(reason: str, **having: Any) -> EmitsKind:
    """A `Closed` with this reason."""
    return EmitsKind.of(Closed, reason=reason, **having)


# -- sessions --------------------------------------------------------------------------------


class Taking(EsnpSession):
    """A session that remembers the calls it has handed over."""

    def __init__(self, *args: Any, **named: Any):
        super().__init__(*args, **named)
        self.taken: list[Call] = []

    def events(self) -> list[Event]:
        """As ever; calls are kept."""
        found = super().events()
        self.taken += [event.call for event in found if isinstance(event, Requested)]
        return found


def book(
    options: SessionOptions | None = None, *, role: Role = Role.SERVER, first_id: int = 1
) -> Playbook:
    """A dialogue with one session."""
    session = Taking(role, options, first_id=first_id)
    codec = CODECS[session.options.dialect]
    return Playbook(session, decode=codec.decode_message, encode=codec.encode_message)


ASKED = EmitsKind.of(Requested)


class EsnpPair(Pair):
    """A client and a server, by their own class."""

    client: Taking
    server: Taking

    def called(self) -> Call:
        """The last call that the server was given."""
        return self.server.taken[-1]


def pair(client: SessionOptions | None = None, server: SessionOptions | None = None) -> EsnpPair:
    """Two sessions back to back."""
    return EsnpPair(Taking(Role.CLIENT, client), Taking(Role.SERVER, server))
