"""Routing: original bytes, in their order, and the way back (section 8, bullet 6; section 5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import (
    END,
    EVENT,
    REQUEST,
    RESP,
    TRACE,
    TRACE_INFO,
    Taking,
    book,
    data,
    m,
    mid,
    raw,
    smid,
)
from tests.playbooks.playbook import Emits, EmitsKind, rule

from wirelake.protocols.esnp.layout import (
    BrokenRow,
    Message,
    OpaqueRow,
    Payload,
    SessionInfo,
    Var,
    VarType,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.routing import Router
from wirelake.protocols.esnp.session import Answered, Forwarded
from wirelake.protocols.sansio import Role, SessionError

ROUTES = SessionOptions(routes=True)
ODD = bytes.fromhex(
    "15000004" + "02610502"  # DATA before the head rows
    "13000001" + "01"  # MESSAGE_KIND, cancelled
    "19000000"  # TRACE, cancelled
    "05000001" + "72"  # reserved
    "20000002" + "7a7a"  # unassigned
    "80000003" + "617070"  # an application's
    "15000004" + "01610502"  # broken
    "1e000002" + "8800"  # REQUEST, longer than it need be
    "11000008" + "1122334455667788"
    "00000000"
)
"""A request that has everything a router must not touch."""


def info(name: str, value: int) -> SessionInfo:
    """A SESSION_INFO row with a channel."""
    return SessionInfo(name=name, value=Var(type=VarType.UINT32, value=value))


class Node:
    """A router with channels on one side and one target on the other."""

    def __init__(self, name: str, channels: int, target: Taking):
        self.router = Router(name)
        self.channels = [Taking(Role.SERVER, ROUTES) for _ in range(channels)]
        self.out = Taking(Role.CLIENT, ROUTES)
        self.target = target

    def forward_requests(self) -> list[bytes]:
        """Passes on what has come; what went out."""
        sent = []
        for number, channel in enumerate(self.channels):
            for event in channel.events():
                assert isinstance(event, Forwarded)
                self.out.forward(self.router.forward_request(event.raw, number))
        if wire := self.out.to_send():
            sent.append(wire)
            self.target.receive(wire, 0.0)
        return sent

    def forward_responses(self) -> None:
        """Brings back what the target has said."""
        self.out.receive(self.target.to_send(), 0.0)
        for event in self.out.events():
            assert isinstance(event, Forwarded)
            number, inner = self.router.forward_response(event.raw)
            if number is not None:
                self.channels[number].forward(inner)


# -- bytes -----------------------------------------------------------------------------------


@rule("esnp.8.6")
def test_a_router_passes_on_the_original_bytes() -> None:
    """All rows, cancelled, unknown and broken ones too, in their order; its own row is the last."""
    session = (book(ROUTES) >> ODD << EmitsKind.of(Forwarded, raw=ODD)).done()
    router = Router("r1")
    passed = router.forward_request(ODD, 7)
    assert passed == ODD[:-4] + raw(m(info("r1", 7)))
    assert router.forward_response(passed) == (7, ODD)
    assert isinstance(session, Taking)
    session.forward(passed)
    assert session.to_send() == passed


@rule("esnp.8.6")
def test_what_does_not_carry_its_row_cannot_be_delivered() -> None:
    assert Router("r1").forward_response(ODD) == (None, ODD)
    assert Router("r1").forward_response(END) == (None, END)


@rule("esnp.8.6")
@pytest.mark.parametrize("channel", [0, 1, 5, 9, 10, 11, 127, 128, 300, 2**32 - 1])
def test_the_original_s_bare_varint_is_read(channel: int) -> None:
    """It wrote the number without a type; also where that looks like one."""
    bare = bytearray()
    rest = channel
    while rest >= 0x80:
        bare.append(rest & 0x7F | 0x80)
        rest >>= 7
    bare.append(rest)
    body = b"\x04r1" + bytes(bare)
    message = raw(m(RESP))[:-4] + b"\x10" + len(body).to_bytes(3, "big") + body + END
    assert Router("r1").forward_response(message) == (channel, raw(m(RESP)))
    assert Router("r2").forward_response(message) == (None, message)


@rule("esnp.8.6")
@pytest.mark.parametrize("kind", [t for t in VarType if "INT" in t.name])
def test_a_number_of_any_integer_type_is_read(kind: VarType) -> None:
    row = SessionInfo(name="r1", value=Var(type=kind, value=5))
    assert Router("r1").forward_response(raw(m(RESP, row))) == (5, raw(m(RESP)))


@rule("esnp.8.6")
@pytest.mark.parametrize(
    "value",
    [
        Var(type=VarType.INT32, value=-1),
        Var(type=VarType.LEN_STRING, value="5"),
        Var(type=1, value=True),
    ],
    ids=["negative", "text", "bool"],
)
def test_a_row_of_ours_without_a_number_gives_no_channel(value: Var) -> None:
    """It is taken out all the same."""
    message = raw(m(RESP, SessionInfo(name="r1", value=value)))
    assert Router("r1").forward_response(message) == (None, raw(m(RESP)))
    assert Router("r1").forward_request(message, 3) == raw(m(RESP, info("r1", 3)))


@rule("esnp.8.6")
def test_a_forged_channel_is_removed() -> None:
    """A row with our name that a message brings along is replaced, however it is written."""
    long_way = bytes.fromhex("10000006" + "8400" + "7231" + "0a09")  # a name length of two bytes
    forged = raw(m(REQUEST, info("r1", 9), info("r1", 8)))[:-4] + long_way + END
    router = Router("r1")
    assert router.forward_request(forged, 3) == raw(m(REQUEST, info("r1", 3)))


@rule("esnp.8.6")
def test_of_several_rows_of_ours_the_first_counts() -> None:
    """As everywhere where a row should occur once; all of them are taken out."""
    twice = raw(m(RESP, info("r1", 3), info("other", 1), info("r1", 4)))
    assert Router("r1").forward_response(twice) == (3, raw(m(RESP, info("other", 1))))


@rule("esnp.8.6")
def test_routers_may_be_nested() -> None:
    inner, outer = Router("r1"), Router("r2")
    passed = outer.forward_request(inner.forward_request(ODD, 1), 2)
    number, back = outer.forward_response(passed)
    assert number == 2
    assert inner.forward_response(back) == (1, ODD)
    assert inner.forward_response(passed) == (1, outer.forward_request(ODD, 2))


# -- sessions --------------------------------------------------------------------------------


@rule("esnp.8.6")
def test_two_routers_between_two_clients_and_a_server() -> None:
    """Each knows only its own row; answers find their way whatever their order."""
    server = Taking(Role.SERVER)
    second = Node("second", 1, server)
    first = Node("first", 2, second.channels[0])
    clients = [Taking(Role.CLIENT, first_id=100 * n) for n in (1, 2)]
    numbers = [client.request([data("a", n)], more_flags=[7]) for n, client in enumerate(clients)]
    for client, channel in zip(clients, first.channels, strict=True):
        channel.receive(client.to_send(), 0.0)
    first.forward_requests()
    second.forward_requests()
    server.events()
    assert len(server.taken) == 2
    for call in reversed(server.taken):
        server.answer(call, [data("c", call.id or 0)])
    second.forward_responses()
    second.channels[0].events()
    first.forward_responses()
    for client, channel, number in zip(clients, first.channels, numbers, strict=True):
        client.receive(channel.to_send(), 0.0)
        (answered,) = client.events()
        assert isinstance(answered, Answered)
        assert answered.message == m(RESP, REQUEST, smid(number), data("c", number))


@rule("esnp.8.6", "esnp.3.trace")
def test_a_router_reports_a_trace_and_passes_it_on() -> None:
    options = SessionOptions(routes=True, trace_name="r1")
    message = m(TRACE, REQUEST, mid(7))
    dialogue = book(options) >> message
    dialogue = dialogue << m(RESP, TRACE_INFO, REQUEST, smid(7), Payload(data=b"r1 passed"))
    (dialogue << Emits(Forwarded(message, raw(message)))).done()


@rule("esnp.8.6")
def test_a_router_matches_and_answers_nothing() -> None:
    dialogue = book(ROUTES)
    for message in (m(REQUEST, mid(1)), m(REQUEST, mid(1)), m(RESP, smid(9)), m(EVENT), m()):
        dialogue = dialogue >> message << Emits(Forwarded(message, raw(message)))
    session: Any = dialogue.done()
    assert session.pending == 0
    with pytest.raises(SessionError, match="a router sends no requests"):
        session.request([])


@rule("esnp.8.6")
@pytest.mark.parametrize(
    "wrong", [b"", END[:3], ODD[:-1], ODD + END, ODD + b"\0", bytes.fromhex("00000001ff")], ids=len
)
def test_only_one_whole_message_is_passed_on(wrong: bytes) -> None:
    """Anything else would put the stream out of step."""
    session: Any = book(ROUTES).done()
    with pytest.raises(SessionError):
        session.forward(wrong)
    assert session.to_send() == b""


def test_a_broken_row_is_not_lost_between_two_sessions() -> None:
    target = Taking(Role.SERVER)
    target.receive(Router("r1").forward_request(ODD, 1), 0.0)
    target.events()
    rows = target.taken[0].message.rows
    assert [row.code for row in rows if isinstance(row, BrokenRow)] == ["negative_length"]
    assert OpaqueRow(type=0x80, data=b"app") in rows
    target.answer(target.taken[0])
    back = target.to_send()
    wanted = m(RESP, REQUEST, smid(0x1122334455667788))
    assert Router("r1").forward_response(back) == (1, raw(wanted))


def test_a_name_is_needed() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Router("")


@pytest.mark.parametrize("message", [m(), m(EVENT, Payload(data=b"x" * 500))])
def test_a_session_that_does_not_route_forwards_too(message: Message) -> None:
    """For one who has the bytes and wants nothing back."""
    session: Any = book().done()
    session.forward(raw(message))
    assert session.to_send() == raw(message)
    session.close()
    with pytest.raises(SessionError, match="not allowed in state closed"):
        session.forward(raw(message))
