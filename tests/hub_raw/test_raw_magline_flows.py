"""Every flow of magline's document, over sockets, without the project's codecs."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator

import pytest
from tests.hub_raw import raw_magline as magline
from tests.hub_raw.hub_process import HubProcess, running_hub
from tests.hub_raw.line import Line
from tests.hub_raw.raw_magline import MaglineError, RawMagline

Dial = Callable[..., Line]
_AUTH, _SUBSCRIBE, _PUBLISH, _ACK, _NOTIFY = 10, 11, 13, 14, 20
_ECHO, _ADD, _SLEEP, _FAIL = 0x1001, 0x1002, 0x1003, 0x1004


def _public_key(hub: HubProcess) -> bytes:
    return bytes.fromhex((hub.data / "magline.pub").read_text().strip())


def _signed_on(hub: HubProcess, dialled: Dial, name: str = "", token: str = "") -> RawMagline:
    if not name:
        name, token = hub.client()
    client = RawMagline(dialled("magline"))
    client.hello()
    assert client.ask(_AUTH, id=name, token=token) == {"id": name}
    return client


def _error(client: RawMagline, command: int, data: bytes) -> tuple[int, int]:
    with pytest.raises(MaglineError) as caught:
        client.call(command, data)
    return caught.value.command, caught.value.number


@pytest.mark.parametrize("pinned", [False, True], ids=["anonymous", "pinned"])
def test_the_documents_conversation(hub: HubProcess, dialled: Dial, pinned: bool) -> None:
    client = RawMagline(dialled("magline"))
    client.hello(**({"pinned": _public_key(hub)} if pinned else {}))
    client.ping(7)
    name, token = hub.client()
    assert client.ask(_AUTH, id=name, token=token) == {"id": name}
    assert client.call(_ECHO, b"\x00\xff") == b"\x00\xff"
    assert client.call(_ECHO, b"") == b""
    assert client.call(_ECHO, bytes(200_000)) == bytes(200_000)
    assert client.ask(_ADD, a=40, b=2) == {"c": 42}
    client.ping(2**32 - 1)
    assert _error(client, _FAIL, b"{}") == (_FAIL, 15)
    assert _error(client, 0x7777, b"{}") == (0x7777, 14)
    assert client.ask(_ADD, a=1, b=1) == {"c": 2}
    client.finish()


def test_topics(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    topic = "@magline/topics"
    assert client.ask(_SUBSCRIBE, topic=topic, ack=True) == {"topics": 1}
    ids = [hub.publish(topic=topic, content="over HTTP")["id"]]
    ids.append(client.ask(_PUBLISH, topic=topic, content="by myself")["id"])
    pushes = [client.next_push() for _ in ids]
    assert [command for command, _ in pushes] == [_NOTIFY, _NOTIFY]
    bodies = [json.loads(data) for _, data in pushes]
    assert [body["id"] for body in bodies] == ids
    assert {body["topic"] for body in bodies} == {topic}
    assert client.ask(_ACK, ids=ids) == {"acked": 2}


def test_nothing_but_signing_on_before_it(dialled: Dial) -> None:
    client = RawMagline(dialled("magline"))
    client.hello()
    client.request(_ADD, b'{"a": 1, "b": 2}')
    assert client.last_words() == (12, 3)


def test_a_wrong_token_ends_it(dialled: Dial) -> None:
    client = RawMagline(dialled("magline"))
    client.hello()
    assert _error(client, _AUTH, b'{"id": "nobody", "token": "wrong"}') == (_AUTH, 13)
    frame = client.receive()
    assert (frame.cmd, frame.body) == (magline.FIN, struct.pack(">I", 3))
    assert client.line.rest() == b""


def test_resumption(hub: HubProcess, dialled: Dial) -> None:
    name, token = hub.client()
    old = _signed_on(hub, dialled, name, token)
    kept = old.resume
    old.close()
    client = RawMagline(dialled("magline"))
    client.hello(resume=kept)
    client.ping()
    assert client.sid != kept.sid
    assert client.ask(_ADD, a=1, b=2) == {"c": 3}  # signed on as before
    again = RawMagline(dialled("magline"))
    with pytest.raises(MaglineError) as caught:
        again.hello(resume=kept)  # it was good once
    assert caught.value.number == 8


def test_resumption_replaces_a_living_connection(hub: HubProcess, dialled: Dial) -> None:
    old = _signed_on(hub, dialled)
    new = RawMagline(dialled("magline"))
    new.hello(resume=old.resume)
    old.ping()  # nothing is taken over before the new one has spoken
    new.ping()
    with pytest.raises(MaglineError) as caught:
        old.other()
    assert caught.value.number == -6
    assert new.ask(_ADD, a=1, b=2) == {"c": 3}


def test_a_replayed_resumption_takes_nothing(hub: HubProcess, dialled: Dial) -> None:
    old = _signed_on(hub, dialled)
    shake = magline.Handshake(resume=old.resume)
    answers = []
    for _ in range(3):
        line = dialled("magline")
        line.send(shake.syn)
        answers.append(line.take(16)[3])
    assert answers == [magline.ACK, magline.ERR, magline.ERR]  # the same bytes are good once
    assert old.ask(_ADD, a=1, b=2) == {"c": 3}
    new = RawMagline(dialled("magline"))
    new.hello(resume=old.resume)  # and do not lock out who the session belongs to
    new.ping()
    assert new.ask(_ADD, a=1, b=2) == {"c": 3}


def test_an_unknown_session(hub: HubProcess, dialled: Dial) -> None:
    answers = []
    real = _signed_on(hub, dialled).resume
    for resume in (magline.Resume(bytes(16), bytes(32)), real._replace(secret=bytes(32))):
        line = dialled("magline")
        line.send(magline.Handshake(resume=resume).syn)
        answers.append(line.rest())
    assert answers[0] == answers[1], "session ids can be probed"
    assert struct.unpack_from(">II", answers[0], 16) == (0, 8)
    assert struct.unpack_from(">I", answers[0], 24 + 16) == (7,)


def test_a_wrong_key_is_no_handshake(dialled: Dial) -> None:
    client = RawMagline(dialled("magline"))
    with pytest.raises(MaglineError) as caught:
        client.hello(pinned=b"\x09" + bytes(31))
    assert caught.value.number == 7


@pytest.mark.parametrize("spoilt", ["hmac", "command", "data", "replay", "gap"])
def test_frames_that_were_meddled_with(hub: HubProcess, dialled: Dial, spoilt: str) -> None:
    client = _signed_on(hub, dialled)
    assert client.keys is not None
    seq = client.next_seq() + (3 if spoilt == "gap" else 0)
    good = magline.data_frame(magline.REQ, seq, {}, _ECHO, b"data", client.keys)
    if spoilt == "replay":
        client.line.send(good)
        assert client.other().cmd == magline.REP
    bad = bytearray(good)
    at = {"hmac": 20, "command": 19, "data": -1}.get(spoilt)
    if at is not None:
        bad[at] ^= 1
    client.line.send(bytes(bad))
    assert client.last_words() == (9, 1)


def test_an_open_connection_cannot_start_again(hub: HubProcess, dialled: Dial) -> None:
    client = _signed_on(hub, dialled)
    seq = client.next_seq()
    client.line.send(magline.head(magline.SYN, seq, {}, bytes(range(64))))
    assert client.last_words() == (6, 1)


@pytest.fixture(scope="module")
def closed_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HubProcess, bytes]]:
    """A hub that lets nobody in anonymously, and has a shared key."""
    folder = tmp_path_factory.mktemp("closed")
    psk = bytes(range(32))  # a throw-away key
    (folder / "throw-away.psk").write_text(psk.hex() + "\n")
    (folder / "throw-away.psk").chmod(0o600)
    changes = {"magline": {"psk": [str(folder / "throw-away.psk")]}}
    with running_hub(folder, changes, demo=False) as process:
        yield process, psk


def test_a_shared_key(closed_hub: tuple[HubProcess, bytes]) -> None:
    hub, psk = closed_hub
    name, token = hub.client()
    client = RawMagline(hub.dial("magline"))
    client.hello(psk=psk)
    assert client.ask(_AUTH, id=name, token=token) == {"id": name}
    client.ping()
    client.finish()


def test_a_client_without_the_shared_key_is_refused(closed_hub: tuple[HubProcess, bytes]) -> None:
    hub, _ = closed_hub
    client = RawMagline(hub.dial("magline"))
    with pytest.raises(MaglineError) as caught:
        client.hello()
    assert caught.value.number == 7
    client.close()
