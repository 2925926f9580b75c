"""Every flow of comet's document, over sockets, without the project's codecs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from tests.hub_raw import raw_comet as comet
from tests.hub_raw.hub_process import HubProcess, wait_until
from tests.hub_raw.line import Line
from tests.hub_raw.raw_comet import CometError, RawComet

pytestmark = pytest.mark.slow

Dial = Callable[..., Line]


def _signed_on(hub: HubProcess, dialled: Dial) -> tuple[RawComet, str, str]:
    name, token = hub.client()
    client = RawComet(dialled("comet"))
    client.auth(name, token)
    return client, name, token


def _refused(act: Callable[..., Any], *arguments: Any) -> int:
    with pytest.raises(CometError) as caught:
        act(*arguments)
    return caught.value.code


@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
def test_the_documents_conversation(hub: HubProcess, dialled: Dial, sealed: bool) -> None:
    client, name, _ = _signed_on(hub, dialled)
    if sealed:
        client.exchange_key()
    topic = f"@flow/{name}"
    assert client.topics() == []
    client.subscribe(topic, "@other")
    assert sorted(client.topics()) == sorted([topic, "@other"])
    client.unsubscribe("@other")
    assert client.topics() == [topic]
    client.report_environ(0, 1, "raw phone", "os=none")

    published = hub.publish(topic=topic, content="你好", type=7)
    note = client.next_push()
    assert (note.id, note.type, note.content.decode()) == (published["id"], 7, "你好")
    assert published["audience"] == 1
    assert client.messages() == [note]
    client.ack(note.id)
    assert client.messages() == []
    client.heartbeat()
    client.unsubscribe(topic)
    assert hub.publish(topic=topic, content="nobody")["audience"] == 0
    client.heartbeat()
    assert client.pushed == []


def test_ids_have_the_originals_form(hub: HubProcess, dialled: Dial) -> None:
    client, name, _ = _signed_on(hub, dialled)
    client.subscribe(f"@form/{name}")
    ids = [hub.publish(client=name, content="p")["id"]]
    ids.append(hub.publish(topic=f"@form/{name}", content="m")["id"])
    assert [client.next_push().id for _ in ids] == ids
    assert [len(each) for each in ids] == [16, 16]
    assert [each[0] for each in ids] == ["p", "m"]


def test_stored_notifications_come_in_pages_and_in_order(hub: HubProcess, dialled: Dial) -> None:
    client, name, token = _signed_on(hub, dialled)
    client.subscribe(f"@pages/{name}")
    client.close()
    ids = [hub.publish(topic=f"@pages/{name}", content=str(n))["id"] for n in range(300)]
    client = RawComet(dialled("comet"))
    client.auth(name, token)
    got = []
    while page := client.messages():
        assert len(page) <= 127
        assert client.messages() == page  # a list removes nothing
        got += page
        client.ack(*(note.id for note in page))
    assert [note.id for note in got] == ids
    assert [note.content for note in got] == [str(n).encode() for n in range(300)]
    assert client.pushed == []


@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
def test_pages_fit_a_frame(hub: HubProcess, dialled: Dial, sealed: bool) -> None:
    client, name, token = _signed_on(hub, dialled)
    client.close()
    ids = [hub.publish(client=name, content="x" * 16_384)["id"] for _ in range(5)]
    client = RawComet(dialled("comet"))
    client.auth(name, token)
    if sealed:
        client.exchange_key()
    got = []
    while page := client.messages():
        got += [note.id for note in page]
        client.ack(*(note.id for note in page))
    assert got == ids


def test_pushes_are_not_lost_between_replies(hub: HubProcess, dialled: Dial) -> None:
    client, name, _ = _signed_on(hub, dialled)
    ids = []
    for number in range(50):
        ids.append(hub.publish(client=name, content=str(number))["id"])
        client.heartbeat()
    assert [client.next_push().id for _ in ids] == ids
    client.ack(*ids[:25])
    client.ack(*ids[25:], "unknown")
    client.ack()
    assert client.messages() == []


def test_messages_allowed_before_sign_on(hub: HubProcess, dialled: Dial) -> None:
    client = RawComet(dialled("comet"))
    client.heartbeat()
    client.report_environ(3, 3, "raw phone")
    assert _refused(client.topics) == 5
    assert _refused(client.subscribe, "@news") == 5
    assert _refused(client.messages) == 5
    assert _refused(client.ack, "m000000000000000") == 5
    name, token = hub.client()
    client.auth(name, token)
    client.subscribe("@news")


def test_wrong_tokens(hub: HubProcess, dialled: Dial) -> None:
    name, token = hub.client()
    client = RawComet(dialled("comet"))
    failures = hub.varz()["auth_failures"].get("comet", 0)
    answers = set()
    for who in (name, "nobody-has-this-id"):
        with pytest.raises(CometError) as caught:
            client.auth(who, "t" + "x" * 43)
        answers.add((caught.value.code, caught.value.reason))
    assert len(answers) == 1, "ids can be probed"
    assert answers.pop()[0] == 0
    assert _refused(client.auth, name, token[:-1]) == 0
    assert client.line.rest() == b""  # three are enough
    assert hub.varz()["auth_failures"]["comet"] == failures + 3


def test_signing_on_twice(hub: HubProcess, dialled: Dial) -> None:
    client, name, token = _signed_on(hub, dialled)
    assert _refused(client.auth, name, token) == 2
    assert client.line.rest() == b""


def test_the_newest_connection_of_a_client_stays(hub: HubProcess, dialled: Dial) -> None:
    old, name, token = _signed_on(hub, dialled)
    new = RawComet(dialled("comet"))
    new.auth(name, token)
    old.line.rest()
    new.heartbeat()
    wanted = hub.publish(client=name, content="to the new one")["id"]
    assert new.next_push().id == wanted


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(3, b"\x00", id="subscribe to nothing"),
        pytest.param(4, b"\x00", id="unsubscribe from nothing"),
        pytest.param(3, comet.texts(["news"]), id="a topic without @"),
        pytest.param(3, comet.texts(["@ok", "$inside"]), id="a topic of the server"),
        pytest.param(3, comet.texts(["@" + "x" * 256]), id="a topic that is too long"),
        pytest.param(3, comet.texts(["@with space"]), id="a character that is not allowed"),
        pytest.param(3, b"\x01\x00\x03@\xff\xfe", id="no UTF-8"),
        pytest.param(8, b"\x04\x00\x00\x01x\x00", id="an unknown network"),
        pytest.param(8, b"\x00\x04\x00\x01x\x00", id="an unknown carrier"),
    ],
)
def test_bad_arguments_keep_the_connection(
    hub: HubProcess, dialled: Dial, kind: int, body: bytes
) -> None:
    client, _, _ = _signed_on(hub, dialled)
    assert _refused(client.ask, kind, body) == 4
    assert client.topics() == []
    client.heartbeat()


def test_no_more_topics_than_a_list_can_show(hub: HubProcess, dialled: Dial) -> None:
    client, _, _ = _signed_on(hub, dialled)
    client.subscribe(*(f"@{n}" for n in range(127)))
    assert _refused(client.subscribe, "@one-too-many") in (4, 6)
    assert len(client.topics()) == 127


def test_a_key_that_is_none(hub: HubProcess, dialled: Dial) -> None:
    client, _, _ = _signed_on(hub, dialled)
    assert _refused(client.ask, 1, comet.text(bytes(80))) == 4
    assert client.line.rest() == b""


def test_a_second_key_exchange(hub: HubProcess, dialled: Dial) -> None:
    client, _, _ = _signed_on(hub, dialled)
    client.exchange_key()
    with pytest.raises(CometError) as caught:
        client.exchange_key()
    assert caught.value.code == 4


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\x00", id="length 0"),
        pytest.param(b"\x00\x01\x09", id="unknown type"),
        pytest.param(b"\x00\x02\x06\x00", id="bytes left over"),
        pytest.param(b"\x00\x03\x03\x01\x00", id="a field past the end"),
        pytest.param(b"\x00\x05\x00\xff\xff\x00\x00", id="a length past the end"),
    ],
)
def test_malformed_frames_are_named_and_end_it(dialled: Dial, data: bytes) -> None:
    line = dialled("comet")
    line.send(data)
    rest = line.rest()
    (size,) = struct.unpack_from(">H", rest)
    assert size == len(rest) - 2
    assert rest[2:4] == bytes([comet.ERROR, 4])
    assert rest[6:] == b"message format illegal"


def test_a_client_that_is_removed_cannot_come_back(hub: HubProcess, dialled: Dial) -> None:
    client, name, token = _signed_on(hub, dialled)
    rotated = hub.command_line("client", "rotate", name)
    new_token = rotated.split()[-1]
    client.heartbeat()
    other = RawComet(dialled("comet"))
    assert _refused(other.auth, name, token) == 0
    other.auth(name, new_token)
    hub.command_line("client", "remove", name)
    last = RawComet(dialled("comet"))
    assert _refused(last.auth, name, new_token) == 0


def test_the_reason_of_a_close_is_sent(hub: HubProcess, dialled: Dial) -> None:
    client, name, _ = _signed_on(hub, dialled)
    client.line.send(b"\x00\x01\xff")
    client.line.rest()
    client.close()
    closed = wait_until(
        lambda: [row for row in hub.closed() if row["client"] == name], "the end is told"
    )
    assert closed[0]["protocol"] == "comet"
    assert closed[0]["side"] == "hub"
    assert closed[0]["reason"] == "unknown_type"
