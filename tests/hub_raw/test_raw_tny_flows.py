"""Every flow of tny's document, over sockets, without the project's codecs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from tests.hub_raw import raw_tny as tny
from tests.hub_raw.hub_process import HubProcess, running_hub
from tests.hub_raw.line import Line
from tests.hub_raw.raw_tny import RawTny, TnyError, TnyMessage

Dial = Callable[..., Line]
_AUTH, _SUBSCRIBE, _UNSUBSCRIBE, _PUBLISH, _ACK, _NOTIFY = 10, 11, 12, 13, 14, 20


def _signed_on(hub: HubProcess, dialled: Dial, name: str = "", token: str = "") -> RawTny:
    if not name:
        name, token = hub.client()
    client = RawTny(dialled("tny"))
    assert client.ask(_AUTH, id=name, token=token) == {"id": name}
    return client


def _code(client: RawTny, protocol: int, body: bytes | None) -> int:
    with pytest.raises(TnyError) as caught:
        client.call(protocol, body)
    return caught.value.code


def test_calls(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    assert client.call(1001, b"\x00\xffany bytes") == b"\x00\xffany bytes"
    assert client.ask(1002, a=40, b=2) == {"c": 42}
    client.ask(1003, ms=1)
    assert _code(client, 1004, b"{}") == 500
    assert _code(client, 99_999, b"{}") == 205
    assert _code(client, 1002, b"no JSON") == 500
    assert client.ask(1002, a=1, b=1) == {"c": 2}


def test_an_answer_echoes_the_line(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    for line in range(8):
        answer = client.answer(client.request(1001, b"x", line))
        assert (answer.line, answer.protocol, answer.code) == (line, 1001, 100)
        assert answer.time_ms > 1_600_000_000_000


def test_requests_go_on_while_one_sleeps(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    slow = client.request(1003, b'{"ms": 300}')
    quick = client.request(1002, b'{"a": 1, "b": 2}')
    first, second = client.receive(), client.receive()
    assert isinstance(first, TnyMessage)
    assert isinstance(second, TnyMessage)
    assert {first.to, second.to} == {slow, quick}
    assert {first.code, second.code} == {100}


def test_ticks(hub: HubProcess, dialled: Dial) -> None:
    client = RawTny(dialled("tny"))
    client.ping()  # also before signing on
    name, token = hub.client()
    client.ask(_AUTH, id=name, token=token)
    for _ in range(3):
        client.ping()
        assert client.ask(1002, a=1, b=2) == {"c": 3}


@pytest.fixture(scope="module", params=["upstream", "auto"])
def other_hub(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HubProcess]:
    """A hub whose tny listener follows the original, or both."""
    changes = {"tny": {"dialect": request.param}}
    with running_hub(tmp_path_factory.mktemp("other"), changes) as process:
        yield process


def test_ticks_of_five_bytes(other_hub: HubProcess) -> None:
    name, token = other_hub.client()
    client = RawTny(other_hub.dial("tny"), "upstream")
    try:
        client.ping()
        assert client.ask(_AUTH, id=name, token=token) == {"id": name}
        client.ping()
        assert client.ask(1002, a=1, b=2) == {"c": 3}
    finally:
        client.close()


def test_before_signing_on(dialled: Dial) -> None:
    for protocol in (1002, _SUBSCRIBE, _PUBLISH):
        client = RawTny(dialled("tny"))
        assert _code(client, protocol, b'{"a": 1, "b": 2}') == 210
        assert client.line.rest() == b""


def test_a_wrong_token_ends_it(dialled: Dial) -> None:
    client = RawTny(dialled("tny"))
    wrong = json.dumps({"id": "nobody", "token": "wrong"}).encode()
    assert _code(client, _AUTH, wrong) == 210
    assert client.line.rest() == b""  # code 210 closes


def _notified(message: TnyMessage) -> dict[str, object]:
    assert (message.mode, message.protocol, message.to) == (tny.PUSH, _NOTIFY, 0)
    assert message.body is not None
    return dict(json.loads(message.body))


def test_topics(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    topic = "@tny/topics"
    assert client.ask(_SUBSCRIBE, topic=topic) == {"topics": 1}
    first = hub.publish(topic=topic, content="plain")
    got = _notified(client.next_push())
    assert (got["id"], got["topic"], got["content"]) == (first["id"], topic, "plain")
    assert isinstance(got["ts"], int)
    second = client.ask(_PUBLISH, topic=topic, content_base64="/w==")
    got = _notified(client.next_push())
    assert (got["id"], got["content_base64"]) == (second["id"], "/w==")
    client.ask(_UNSUBSCRIBE, topic=topic)
    assert hub.publish(topic=topic, content="nobody")["audience"] == 0


def test_unacknowledged_notifications_are_sent_again(hub: HubProcess, dialled: Dial) -> None:
    name, token = hub.client()
    topic = f"@tny/acked/{name}"
    client = _signed_on(hub, dialled, name, token)
    client.ask(_SUBSCRIBE, topics=[topic], ack=True)
    ids = [hub.publish(topic=topic, content=str(n))["id"] for n in range(6)]
    assert [_notified(client.next_push())["id"] for _ in ids] == ids
    assert client.ask(_ACK, ids=ids[:2]) == {"acked": 2}
    client.close()
    client = _signed_on(hub, dialled, name, token)
    client.ask(_SUBSCRIBE, topic=topic, ack=True)
    assert [_notified(client.next_push())["id"] for _ in ids[2:]] == ids[2:]


def test_written_is_acked_without_asking(hub: HubProcess, dialled: Dial) -> None:
    name, token = hub.client()
    topic = f"@tny/unacked/{name}"
    client = _signed_on(hub, dialled, name, token)
    client.ask(_SUBSCRIBE, topic=topic)
    seen = hub.publish(topic=topic, content="seen")["id"]
    assert _notified(client.next_push())["id"] == seen
    client.close()
    missed = hub.publish(topic=topic, content="missed")["id"]
    client = _signed_on(hub, dialled, name, token)
    client.ask(_SUBSCRIBE, topic=topic)
    assert _notified(client.next_push())["id"] == missed


def _packet(number: int) -> bytes:
    message = TnyMessage(number, tny.REQUEST, _AUTH, body=b"{}")
    return tny.packet(7, number, tny.message_bytes(message))


def test_numbers_may_skip_a_little(hub: HubProcess, dialled: Dial) -> None:
    name, token = hub.client()
    client = RawTny(dialled("tny"))
    client.ask(_AUTH, id=name, token=token)
    client._number += 29
    assert client.ask(1002, a=1, b=2) == {"c": 3}


@pytest.mark.parametrize("numbers", [(1, 1), (1, 32), (0,), (32,)], ids=str)
def test_numbers_that_are_refused(dialled: Dial, numbers: tuple[int]) -> None:
    line = dialled("tny")
    for number in numbers:
        line.send(_packet(number))
    assert line.rest().count(b"tny.") <= len(numbers)
