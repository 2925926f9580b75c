"""A meaning must fit the layouts of its protocol; the error names what is wrong and what exists."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Annotated, Any, ClassVar

import pytest

from wirelake.protocols import registry
from wirelake.wire import Layout, Protocol
from wirelake.wire import types as t
from wirelake.wire.declare import DeclarationError
from wirelake.wire.meaning import (
    Argument,
    Arguments,
    At,
    CounterCipher,
    Device,
    Each,
    Equal,
    First,
    HasRow,
    If,
    Is,
    Join,
    KeySelector,
    Meaning,
    Name,
    Named,
    NamedRows,
    Resumption,
    RowField,
    SignOn,
    Text,
    Tunnels,
    Values,
)


class Item(Layout):
    """A listed thing."""

    id: t.String8
    sent_ms: t.U64


class Ask(Layout):
    """A request."""

    target: t.String8
    body: t.Bytes16
    items: t.List8[Item]


class Answer(Layout):
    """A response."""

    to: t.U32
    status: t.U8


class Ping(Layout):
    """No fields."""


class Frame(Layout):
    """The frame."""

    length: ClassVar[t.Length16]
    type: ClassVar[t.Tag8]
    urgent: t.Flag
    spare: t.Bits7
    number: t.U32
    body: Annotated[Ask | Answer | Ping, t.Choice({1: Ask, 2: Answer, 3: Ping})]


class Speed(Layout):
    """A row."""

    knots: t.VarU32


class Other(Layout):
    """A row of an unknown type."""

    type: int
    data: bytes = b""


class Broken(Layout):
    """A row that does not decode."""

    type: int
    data: bytes
    code: str
    field: str
    offset: int


class Log(Layout):
    """A frame of rows."""

    rows: Annotated[
        tuple[Speed | Other | Broken, ...],
        t.RowsMark(
            tag=t.Int(1), size=t.Int(3), end=0, kinds={1: Speed}, opaque=Other, broken=Broken
        ),
    ] = ()


def made(frame: type[Layout] = Frame, **meaning: Any) -> Protocol:
    return Protocol(name="demo", title="demo", frame=frame, meaning=Meaning(**meaning))


@pytest.mark.parametrize("name", registry.names())
def test_every_installed_protocol_passes(name: str) -> None:
    registry.find(name).check()


def test_a_meaning_that_fits() -> None:
    made(
        kind=Named({"ask": "request", "answer": "response"}, "control"),
        message_id=At("number"),
        reply_to=At("answer.to"),
        target=Join("/", At("ask.target"), Text(At("answer.status"))),
        status=First(Values(At("answer.status"), {0: "ok"}), Named({"ping": "ok"})),
        reason=If(Is(At("urgent"), 1), "urgent"),
        client=At("ask.target"),
        ids=(Each("ask.items[].id"),),
        published_ms=("ask.items[].sent_ms",),
        body=("ask.body",),
        sealed=("ask.body",),
        transformed=("urgent",),
        heartbeats=("ping",),
        sign_on=SignOn(confirmed_by=("answer",)),
    ).check()
    made(Log, message_id=RowField("speed", "knots", ("knots", 7))).check()
    made(name=If(Is(At("urgent"), 1), "alarm", Name()), heartbeats=("alarm", "ping")).check()


FIELDS = "urgent, spare, number, ask, answer, ping"


@pytest.mark.parametrize(
    ("meaning", "words"),
    [
        (
            {"reply_to": At("answer.two")},
            "unknown field 'two' in message 'answer'; expected one of to, status",
        ),
        (
            {"message_id": At("nummer")},
            f"unknown message or field 'nummer'; expected one of {FIELDS}",
        ),
        ({"target": At("aks.target")}, f"unknown message or field 'aks'; expected one of {FIELDS}"),
        (
            {"target": At("ping.x")},
            "unknown field 'x' in message 'ping', which has no fields",
        ),
        (
            {"target": At("ask.target.x")},
            "unknown field 'x' in field 'target', which has no fields",
        ),
        (
            {"kind": Named({"aks": "request"})},
            "unknown message 'aks'; expected one of ask, answer, ping",
        ),
        ({"kind": Named({"ask": "requst"})}, "unknown kind 'requst'; expected one of request, "),
        ({"kind": If(Is(At("urgent"), 1), "alarm")}, "unknown kind 'alarm'"),
        ({"heartbeats": ("pong",)}, "unknown message 'pong'; expected one of ask, answer, ping"),
        ({"sign_on": SignOn(confirmed_by=("welcome",))}, "unknown message 'welcome'"),
        ({"message_id": At("ask.target")}, "message_id is text; expected number"),
        ({"target": At("answer.to")}, "target is number; expected text; use Text or Values"),
        ({"target": Text(At("ask.target"))}, "the argument of Text is text; expected number"),
        ({"status": First(At("answer.to"), Name())}, "the arguments of First are number, text"),
        ({"status": Join("/", At("number"))}, "an argument of Join is number; expected text"),
        (
            {"status": If(Equal(At("ask.target"), At("number")), "x")},
            "an argument of Equal is text",
        ),
        ({"status": Is(At("number"), 1)}, "Is is not a term of a column"),
        ({"body": ("ask.target",)}, "body is text; expected bytes"),
        ({"body": ("ask.body",), "sealed": ("ask.bodi",)}, "unknown path in sealed 'ask.bodi'"),
        ({"ids": (Each("ask.items"),)}, "ids is list; expected text"),
        ({"ids": (Each("ask.target[]"),)}, "'ask.target[]': 'target' is not a list"),
        ({"ids": (Each("ask.items[].key"),)}, "unknown field 'key' in field 'items'"),
        ({"published_ms": ("ask.items[].id",)}, "published_ms is text; expected number"),
        (
            {"arguments": Arguments(client=Argument("auth", "id"))},
            "arguments need a body, or rows",
        ),
        ({"transformed": ("packed",)}, "unknown message or field 'packed'"),
        ({"body_row": RowField("speed", "knots")}, "unknown row 'speed'"),
        ({"device": Device("report")}, "unknown message 'report'"),
        ({"device": Device("ask", isp=At("ask.isp"))}, "unknown field 'isp' in message 'ask'"),
        ({"resumption": Resumption("ask", "ask.session")}, "unknown field 'session'"),
        ({"key_selector": KeySelector("client", "ask.client")}, "unknown field 'client'"),
        ({"cipher": CounterCipher("k", "i", "m", "seq", 8, 4, 4)}, "message or field 'seq'"),
        (
            {"tunnels": Tunnels("x", "ask", "body", "a", "b", "open", "ping", "answer")},
            "unknown message 'open'; expected one of ask, answer, ping",
        ),
    ],
)
def test_a_meaning_that_does_not_fit(meaning: dict[str, Any], words: str) -> None:
    protocol = made(**meaning)
    with pytest.raises(DeclarationError) as caught:
        protocol.check()
    assert str(caught.value).startswith("meaning of 'demo': ")
    assert words in str(caught.value)
    with pytest.raises(DeclarationError):
        protocol.codec()


@pytest.mark.parametrize(
    ("term", "words"),
    [
        (RowField("sped", "knots"), "unknown row 'sped'; expected one of speed"),
        (RowField("speed", "knot"), "unknown field 'knot' in row 'speed'; expected one of knots"),
        (RowField("speed", "knots", ("unit", 1)), "unknown field 'unit' in row 'speed'"),
        (If(HasRow("speed", ("unit", 1)), At("rows")), "unknown field 'unit' in row 'speed'"),
    ],
)
def test_rows_that_do_not_exist(term: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        made(Log, message_id=term).check()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (NamedRows("sped", "name", "value"), "unknown row 'sped'"),
        (NamedRows("speed", "name", "value"), "unknown field 'name' in row 'speed'"),
        (NamedRows("speed", "knots", "knots"), "knots of row 'speed' is not text"),
    ],
)
def test_arguments_in_rows_that_have_none(rows: NamedRows, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        made(Log, arguments=Arguments(rows=rows)).check()


BROKEN = made(heartbeats=("pong",))


def test_a_protocol_with_such_a_meaning_does_not_register(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("demo", f"{__name__}:BROKEN", registry.GROUP)
    monkeypatch.setattr(registry, "_points", lambda: (point,))
    with pytest.raises(registry.BrokenProtocolError, match="meaning of 'demo': unknown message"):
        registry.find("demo")
    found, broken = registry.load_all()
    assert [each.name for each in found] == list(registry.BUILT_IN)
    assert len(broken) == 1
