"""Lines and headers of tny messages (§11.1, §11.2 and the forwarding of §6), as playbooks."""

from __future__ import annotations

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, rule
from tests.playbooks.tny.peer import (
    DIALECTS,
    Peer,
    client_book,
    push,
    request,
    response,
    server_book,
)

from wirelake.protocols.sansio import Failed
from wirelake.protocols.tny.layout import (
    Contact,
    ForwardHeader,
    Message,
    OriginalMessageIdHeader,
    Point,
    TracingHeader,
)
from wirelake.protocols.tny.limits import ServerOptions
from wirelake.protocols.tny.message import encode_header
from wirelake.protocols.tny.session import Replied, Requested, ServerSession
from wirelake.protocols.tny.transform import Dialect

MOVE, CHAT = 2002, 3003
HELLO = b"hello"

both_dialects = pytest.mark.parametrize("dialect", DIALECTS)


@rule("tny.11.1")
@both_dialects
@pytest.mark.parametrize("line", range(8))
def test_the_handler_sees_the_line_the_response_echoes_it_a_push_names_one(
    line: int, dialect: Dialect
) -> None:
    asked = request(1, MOVE, line=line)
    (
        server_book(Peer(dialect))
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked))
        << response(1, asked, line=line)
        >> (lambda s: s.push(CHAT, line=line))
        << push(2, CHAT, line=line)
        >> (lambda s: s.push(CHAT))
        << push(3, CHAT, line=0)
    ).done()


@rule("tny.11.2", "tny.6.forwarding")
def test_seed_passes_the_forward_header_as_bytes_and_sends_it_back_unchanged() -> None:
    asked = request(1, MOVE, HELLO, forward_header=b"\x00to anywhere\xff")
    (
        server_book()
        >> asked
        << Emits(Requested(asked))
        >> (lambda s: s.respond(asked))
        << response(1, asked, forward_header=b"\x00to anywhere\xff")
    ).done()


@rule("tny.11.2", "tny.6.forwarding")
def test_upstream_passes_headers_decoded_and_sends_their_bytes_back_unchanged() -> None:
    forward = ForwardHeader(to=Point(service_type_id=7), sender=Contact(contact_id=5))
    headers = (encode_header(forward), encode_header(TracingHeader()), b"\x09\x09\x00\x00own")
    asked = request(1, MOVE, headers=headers)
    answer = response(1, asked, headers=headers)
    book = server_book(Peer("upstream")) >> asked
    book << EmitsKind.of(Requested, message=asked)
    (book >> (lambda s: s.respond(asked)) << answer).done()
    session = ServerSession(ServerOptions(dialect="upstream"))
    session.receive(Peer("upstream").encode(asked), 0.0)
    (event,) = session.events()
    assert isinstance(event, Requested)
    assert event.headers[0] == forward
    assert [type(header).__name__ for header in event.headers] == [
        "ForwardHeader",
        "TracingHeader",
        "OpaqueHeader",
    ]


@rule("tny.11.2")
def test_a_header_that_does_not_decode_leaves_the_rest_valid() -> None:
    broken, good = b"\x64\x00", encode_header(TracingHeader())
    asked = request(1, MOVE, HELLO, headers=(broken, good))
    session = (
        server_book(Peer("upstream"))
        >> asked
        << EmitsKind.of(Failed, code="short", fatal=False)
        << Emits(Requested(asked, (TracingHeader(),)))
    ).done()
    assert not session.closed


@rule("tny.6.original_id", "tny.6.forwarding")
def test_upstream_answers_the_original_id_of_header_101() -> None:
    original = (encode_header(OriginalMessageIdHeader(message_id=55)),)
    asked = request(1, MOVE, headers=original)
    (
        server_book(Peer("upstream"))
        >> asked
        << EmitsKind.of(Requested)
        >> (lambda s: s.respond(asked))
        << response(1, asked, to_message=55)
    ).done()
    answer = response(1, asked, b"ok", to_message=55, headers=None)
    (
        client_book(Peer("upstream"))
        >> (lambda s: s.request(MOVE, headers=original))
        << asked
        >> answer
        << Emits(Replied(asked, answer))
    ).done()


@rule("tny.6.original_id")
def test_calls_with_the_same_original_id_are_answered_in_their_order() -> None:
    original = (encode_header(OriginalMessageIdHeader(message_id=1)),)
    book = client_book(Peer("upstream"))
    asked = [request(n, MOVE, headers=original) for n in (1, 2)]
    for message in asked:
        book >> (lambda s: s.request(MOVE, headers=original)) << message
    for n, message in enumerate(asked, 1):
        answer = response(n, message, to_message=1, headers=None)
        book >> answer << Emits(Replied(message, answer))
    book.done()


def test_a_response_can_have_headers_of_its_own() -> None:
    swapped = (encode_header(ForwardHeader(from_=Point(service_type_id=7))),)
    asked = request(1, MOVE, headers=(encode_header(ForwardHeader(to=Point(service_type_id=7))),))
    (
        server_book(Peer("upstream"))
        >> asked
        << EmitsKind.of(Requested)
        >> (lambda s: s.respond(asked, headers=swapped))
        << response(1, asked, headers=swapped)
    ).done()


@rule("tny.11.2")
def test_a_node_forwards_a_message_unchanged() -> None:
    carried = Message(
        id=8, line=2, protocol=MOVE, time=5, forward_header=b"from here to there", body=HELLO
    )
    (client_book() >> (lambda s: s.send(carried)) << carried).done()
