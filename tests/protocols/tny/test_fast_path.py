"""Requests that are answered while they are read must be answered as if they had been events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from wirelake.protocols.sansio import Closed, Event, SessionError, Side
from wirelake.protocols.tny.endpoint import Pushed, Replied, Requested
from wirelake.protocols.tny.fast_path import (
    Answer,
    Deferred,
    FastHandler,
    RequestTemplate,
    learn_template,
)
from wirelake.protocols.tny.layout import Message
from wirelake.protocols.tny.limits import LAST_NUMBER, ClientOptions, ServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.packets import PLAIN
from wirelake.protocols.tny.protocol import PROTOCOL
from wirelake.protocols.tny.session import ClientSession, ServerSession
from wirelake.protocols.tny.transform import TransformConfig

pytestmark = pytest.mark.slow


def decide(protocol: int, body: bytes) -> bytes | Answer | None:
    """What the application says to a request; None when it wants to think about it."""
    if body[4:5] == b"\x07":
        return Answer(ResultCode.AUTH_FAILED, b"which closes")
    choices: tuple[bytes | Answer | None, ...] = (
        body,
        body[::-1],
        b"",
        body * 3,
        body * 30,
        Answer(ResultCode.SERVER_ERROR, b"no"),
        Answer(ResultCode.SUCCESS),
        None,
    )
    return choices[protocol % len(choices)]


def respond(session: ServerSession, request: Message) -> None:
    """Answers a request that was an event."""
    answer = decide(request.protocol, request.body or b"") or b""
    code, body = answer if isinstance(answer, Answer) else (ResultCode.SUCCESS, answer)
    try:
        session.respond(request, body, code=code)
    except SessionError as error:
        if error.code != "too_large":
            raise
        session.respond(request, session.too_large_answer.body, code=session.too_large_answer.code)


def asking(rng: random.Random, dialect: str) -> bytes:
    """What a client says that asks the same few things again and again, with a little of all else;
    packets may be missing, come twice, or be broken."""
    options = ClientOptions(dialect=dialect, max_in_flight=10_000)  # type: ignore[arg-type]
    client = ClientSession(
        options,
        access_id=rng.choice((0, 7, 1 << 40)),
        first_id=rng.choice((1, 100, 1 << 40)),
        epoch_ms=rng.choice((1, 1_700_000_000_000)),
    )
    packets = []
    for count in range(rng.randrange(20, 120)):
        what = rng.randrange(60)
        body = count.to_bytes(4) + rng.randbytes(rng.randrange(200))
        protocol = rng.choice((1_000, 1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006))
        if what == 0:
            client.ping()
        elif what == 1:
            client.push(5, b"told")
        elif what == 2:
            client.request(protocol)
        elif what == 3:
            client.request(rng.randrange(3_000), body, line=rng.randrange(8))
        elif what == 4:
            client.request(1_007, body)
        else:
            client.request(protocol, body, now=float(count // 20))
        packets.append(client.to_send())
        if rng.randrange(100) == 0:
            packets.pop()
        elif rng.randrange(300) == 0:
            packets.append(packets[-1])
    data = bytearray(b"".join(packets))
    for _ in range(rng.choice((0, 0, 0, 1, 2, 3))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


class Listener:
    """A server of the test, which takes a stream in pieces and says something of its own too."""

    def __init__(self, options: ServerOptions):
        self.session = ServerSession(options, first_id=90, epoch_ms=1_700_000_000_000)
        self.session.too_large_answer = Answer(ResultCode.SERVER_ERROR, b"too large")
        self.events: list[Event] = []
        self.said = b""
        self.timers: list[float | None] = []

    def hear(self, data: bytes, cuts: list[int]) -> None:
        """Takes the whole stream."""
        for now, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(data)], strict=True)):
            for event in self.take(data[start:stop], now / 3):
                self.events.append(event)
                if isinstance(event, Requested) and not self.session.closed:
                    respond(self.session, event.message)
            if now % 2 and not self.session.closed:
                self.session.push(9, b"told")
            self.said += self.session.to_send()
            self.timers.append(self.session.next_timer())
        self.session.receive_eof()
        self.events += self.session.events()

    def take(self, piece: bytes, now: float) -> list[Event]:
        """Takes a piece; what has happened."""
        self.session.receive(piece, now)
        return self.session.events()

    def outcome(self) -> tuple[object, ...]:
        """Everything that can be seen of it."""
        session = self.session
        counts = session.received_bytes, session.sent_bytes, session.pending, session.next_id
        numbers = session._reader.number, session._writer.number
        return self.events, self.said, self.timers, counts, numbers, session.state, session.buffered


class Quick(Listener):
    """One that answers at once what it can."""

    def __init__(self, options: ServerOptions):
        super().__init__(options)
        self.session.fast_handler = self.fast_handler
        self.answered: set[bytes] = set()

    def fast_handler(self, kind: RequestTemplate, body: bytes, _: bytes) -> bytes | Answer | None:
        """Remembers what it has answered."""
        answer = decide(kind.protocol, body)
        if answer is not None:
            self.answered.add(body)
        return answer


class Slow(Listener):
    """One that reads byte by byte, the long way, and answers what `Quick` did as it comes."""

    def __init__(self, options: ServerOptions, fast_handler: set[bytes]):
        super().__init__(options)
        self.session._is_plain = False
        self.fast_handler = fast_handler

    def take(self, piece: bytes, now: float) -> list[Event]:
        """Takes a piece; what has happened and was not answered as it came."""
        left: list[Event] = []
        self.session.receive(b"", now)
        for at in range(len(piece)):
            self.session.receive(piece[at : at + 1], now)
            for event in self.session.events():
                if isinstance(event, Requested) and event.message.body in self.fast_handler:
                    assert not left, "it must not overtake what came before it"
                    respond(self.session, event.message)
                    left += self.session.events()
                else:
                    left.append(event)
        return left


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
@pytest.mark.parametrize("seed", range(150))
def test_answers_at_once_are_what_they_would_have_been(dialect: str, seed: int) -> None:
    rng = random.Random(seed)
    data = asking(rng, dialect)
    cuts = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(5, 40)))
    options = ServerOptions(
        dialect=dialect,  # type: ignore[arg-type]
        max_payload=rng.choice((None, 300, 60_000)),
        max_number=rng.choice((LAST_NUMBER, 25)),
        numbers_low=10,
    )
    quick = Quick(options)
    quick.hear(data, cuts)
    slow = Slow(options, quick.answered)
    slow.hear(data, cuts)
    assert quick.outcome() == slow.outcome()


def raw_packet(asked: bytes, number: int, /, **pieces: bytes) -> bytes:
    """A packet of access id 7 that is put together by hand, of these pieces or usual ones."""
    usual = {"access": b"\7", "number": bytes([number]), "id": b"\7", "asked": asked}
    rest = {"time": b"\1", "size": b"\3", "body": b"%3d" % number}
    content = b"".join({**usual, **rest, **pieces}.values())
    return PLAIN + len(content).to_bytes(4, "little") + content


ODD: dict[str, dict[str, bytes]] = {
    "as usual": {},
    "another access id": {"access": b"\x09"},
    "an access id that is longer than need be": {"access": b"\x87\0"},
    "a number that is longer than need be": {"number": b"\x84\0"},
    "a number that skips some": {"number": b"\x10"},
    "a number that came already": {"number": b"\3"},
    "no number": {"number": b""},
    "a large id": {"id": b"\xff" * 8 + b"\x7f"},
    "a negative id": {"id": b"\xff" * 9 + b"\1"},
    "an id that is longer than need be": {"id": b"\x87\x80\0"},
    "an id of ten bytes with bits to spare": {"id": b"\xff" * 9 + b"\x7f"},
    "an id without end": {"id": b"\xff" * 11},
    "a time that is longer than need be": {"time": b"\x87\x80\0"},
    "a negative time": {"time": b"\xff" * 9 + b"\1"},
    "a time of ten bytes with bits to spare": {"time": b"\xff" * 9 + b"\x7f"},
    "a time of eleven bytes": {"time": b"\xff" * 10 + b"\1"},
    "a size that is longer than need be": {"size": b"\x83\0"},
    "a size that is too small": {"size": b"\2"},
    "a size that is too large": {"size": b"\4"},
    "a negative size": {"size": b"\xff\xff\xff\xff\x0f"},
    "a size of ten bytes with bits to spare": {"size": b"\x83" + b"\x80" * 8 + b"\x7e"},
    "no body": {"size": b"", "body": b""},
    "no time, no body": {"time": b"", "size": b"", "body": b""},
    "nothing after the id": {"asked": b"", "time": b"", "size": b"", "body": b""},
    "a payload over one of the limits": {"size": b"\x3c", "body": bytes(60)},
    "a large body": {"size": b"\x80\x40", "body": bytes(8192)},
}


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
@pytest.mark.parametrize("rest", [0, 1, 25])
@pytest.mark.parametrize("limit", [None, 50])
@pytest.mark.parametrize("what", ODD)
def test_unusual_packets_take_the_general_path(
    dialect: str, rest: int, limit: int | None, what: str
) -> None:
    options = ServerOptions(dialect=dialect, max_payload=limit)  # type: ignore[arg-type]
    kind = learn_template(PROTOCOL.codec(dialect), Message(id=1, protocol=1_000, body=b""))
    assert kind is not None
    usual = [raw_packet(kind.asked, number) for number in range(1, 6)]
    odd = raw_packet(kind.asked, 4, **ODD[what])
    cuts = [len(usual[0]), len(usual[0] + usual[1])]
    data = b"".join((*usual[:3], odd, usual[4]))
    quick = Quick(options)
    quick.hear(data[: len(data) - rest], cuts)
    slow = Slow(options, quick.answered)
    slow.hear(data[: len(data) - rest], cuts)
    assert quick.outcome() == slow.outcome()
    assert quick.answered


def two_ends(answer: FastHandler) -> tuple[ClientSession, ServerSession]:
    """A client, and a server that has answered its first two requests, and so knows their kind."""
    client, server = ClientSession(access_id=7), ServerSession()
    server.fast_handler = answer
    for _ in range(2):
        client.request(1_001, b"as an event")
        server.receive(client.to_send(), 0.0)
        for event in server.events():
            assert isinstance(event, Requested)
            server.respond(event.message, b"answered")
        client.receive(server.to_send(), 0.0)
        client.events()
    return client, server


def test_a_plain_request_makes_no_event() -> None:
    client, server = two_ends(lambda kind, body, _: b"%d " % kind.protocol + body)
    first = client.request(1_001, b"one")
    client.request(1_001, b"x" * 3_000)
    server.receive(client.to_send(), 0.0)
    assert server.events() == []
    assert server.pending == 0
    client.receive(server.to_send(), 0.0)
    replies = client.events()
    bodies = [reply.response.body for reply in replies if isinstance(reply, Replied)]
    assert bodies == [b"1001 one", b"1001 " + b"x" * 3_000]
    assert isinstance(replies[0], Replied)
    assert replies[0].response.to_message == first


@pytest.mark.parametrize(
    ("other", "body"),
    [
        ({}, None),
        ({"line": 3}, b"x"),
        ({"forward_header": b"from and to"}, b"x"),
        ({}, b"x" * 5_000),
    ],
)
def test_what_is_not_known_or_not_plain_is_an_event(other: Any, body: bytes | None) -> None:
    client, server = two_ends(lambda _, body, __: body)
    client.request(1_001, body, **other)
    server.receive(client.to_send(), 0.0)
    (event,) = server.events()
    assert isinstance(event, Requested)
    assert event.message.body == body


def test_nothing_overtakes_an_event() -> None:
    client, server = two_ends(lambda _, body, __: body)
    client.push(3, b"told")
    client.request(1_001, b"after it")
    server.receive(client.to_send(), 0.0)
    result, asked = server.events()
    assert isinstance(result, Pushed)
    assert isinstance(asked, Requested)
    server.respond(asked.message)
    client.request(1_001, b"at once again")
    server.receive(client.to_send(), 0.0)
    assert server.events() == []


def test_an_application_may_end_the_connection_while_it_answers() -> None:
    def end(_kind: RequestTemplate, _body: bytes, _asked: bytes) -> bytes:
        server.close("enough")
        return b"too late"

    client, server = two_ends(end)
    client.request(1_001, b"x")
    client.request(1_001, b"x")
    server.receive(client.to_send(), 0.0)
    assert server.to_send() == b""
    assert server.events() == [Closed("enough", Side.LOCAL)]
    assert server.next_timer() is None


def test_an_application_may_push_while_it_answers() -> None:
    def tell(_kind: RequestTemplate, body: bytes, _asked: bytes) -> bytes:
        server.push(20, b"before the answer", now=5.0)
        return body

    client, server = two_ends(tell)
    client.request(1_001, b"x")
    server.receive(client.to_send(), 0.0)
    client.receive(server.to_send(), 0.0)
    pushed, replied = client.events()
    assert isinstance(pushed, Pushed)
    assert isinstance(replied, Replied)
    assert replied.response.id == pushed.message.id + 1
    assert replied.response.time == pushed.message.time == 5_000


def test_no_fast_path_with_options() -> None:
    options = ServerOptions(writing=TransformConfig(verify=True))
    client, server = ClientSession(access_id=7), ServerSession(options)
    server.fast_handler = lambda _, body, __: body
    for _ in range(4):
        client.request(1_001, b"x")
        server.receive(client.to_send(), 0.0)
        (event,) = server.events()
        assert isinstance(event, Requested)
        server.respond(event.message)


def test_few_kinds_are_kept() -> None:
    client, server = two_ends(lambda _, body, __: body)
    for protocol in range(2_000, 2_100):
        client.request(protocol, b"x")
        server.receive(client.to_send(), 0.0)
        for event in server.events():
            assert isinstance(event, Requested)
            server.respond(event.message)
    assert len(server._templates) == 8


class Thinker:
    """An application that answers later."""

    def __init__(self) -> None:
        self.asked: list[tuple[RequestTemplate, bytes]] = []

    def __call__(self, kind: RequestTemplate, body: bytes, asked: bytes) -> Deferred:  # noqa: ARG002
        """Puts the answer off."""
        self.asked.append((kind, asked))
        return Deferred.DEFERRED


@pytest.mark.parametrize(
    ("answer", "code", "body"),
    [
        (b"yes", ResultCode.SUCCESS, b"yes"),
        (b"x" * 9_000, ResultCode.SUCCESS, b"x" * 9_000),
        (Answer(ResultCode.SERVER_ERROR, b"no"), ResultCode.SERVER_ERROR, b"no"),
        (Answer(ResultCode.SUCCESS), ResultCode.SUCCESS, None),
    ],
)
def test_an_answer_may_come_later(answer: bytes | Answer, code: int, body: bytes | None) -> None:
    thinker = Thinker()
    client, server = two_ends(thinker)
    first, second = client.request(1_001, b"one"), client.request(1_001, b"two")
    server.receive(client.to_send(), 1.0)
    assert (server.events(), server.to_send(), server.pending) == ([], b"", 2)
    for kind, asked in reversed(thinker.asked):
        server.reply_deferred(kind, asked, answer, 2.0)
    assert server.pending == 0
    client.receive(server.to_send(), 2.0)
    replies = [reply.response for reply in client.events() if isinstance(reply, Replied)]
    assert [each.to_message for each in replies] == [second, first]
    assert {(each.code, each.body, each.time) for each in replies} == {(code, body, 2_000)}


def test_a_late_answer_that_does_not_fit_is_an_error() -> None:
    thinker = Thinker()
    client, server = two_ends(thinker)
    server.too_large_answer = Answer(ResultCode.SERVER_ERROR, b"too large")
    client.request(1_001, b"one")
    server.receive(client.to_send(), 1.0)
    server.reply_deferred(*thinker.asked[0], b"x" * (1 << 24), 1.0)
    client.receive(server.to_send(), 1.0)
    (reply,) = client.events()
    assert isinstance(reply, Replied)
    assert (reply.response.code, reply.response.body) == (ResultCode.SERVER_ERROR, b"too large")


def test_too_many_late_answers_are_refused_one_by_one() -> None:
    thinker = Thinker()
    client, server = ClientSession(ClientOptions(max_in_flight=100), access_id=7), ServerSession(
        ServerOptions(max_pending=3)
    )  # fmt: skip
    server.fast_handler = thinker
    for _ in range(2):
        client.request(1_001, b"x")
        server.receive(client.to_send(), 0.0)
        for event in server.events():
            assert isinstance(event, Requested)
            server.respond(event.message)
    server.to_send()
    for _ in range(5):
        client.request(1_001, b"x")
    server.receive(client.to_send(), 0.0)
    assert (len(thinker.asked), server.pending) == (3, 3)
    client.receive(server.to_send(), 0.0)
    codes = [each.response.code for each in client.events() if isinstance(each, Replied)]
    assert codes == [ResultCode.SERVER_ERROR] * 2


def test_a_late_answer_after_the_end_is_dropped() -> None:
    thinker = Thinker()
    client, server = two_ends(thinker)
    client.request(1_001, b"one")
    server.receive(client.to_send(), 1.0)
    server.close("enough")
    server.events()
    server.reply_deferred(*thinker.asked[0], b"yes", 2.0)
    assert server.to_send() == b""
