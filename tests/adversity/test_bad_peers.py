"""Peers that are silent, send too slowly or too much, never read, or guess tokens."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.adversity.counted import Counted
from tests.adversity.healthy_peers import HealthyPeers
from tests.hub_raw import raw_comet as comet
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw import raw_magline as magline
from tests.hub_raw import raw_tny as tny
from tests.hub_raw.hub_process import HubProcess, running_hub, wait_until
from tests.hub_raw.line import Line
from tests.hub_raw.raw_comet import CometError, RawComet
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_magline import RawMagline
from tests.hub_raw.raw_tny import RawTny

_MB = 1024


def test_silent_connections_are_closed(hub: HubProcess, healthy_peers: HealthyPeers) -> None:
    counted = Counted(hub)
    listeners = {"comet": 200, "esnp": 200, "tny": 200, "relay": 20, "magline": 20}
    lines = [hub.dial(listener) for listener, count in listeners.items() for _ in range(count)]
    try:
        healthy_peers.check()
        for listener, count in listeners.items():
            reasons = counted.wait_for_ends(listener, count)
            assert sum(reasons.values()) == count
            assert not set(reasons) & {"", "eof", "lost"}, reasons
    finally:
        for line in lines:
            line.close()


def test_handshakes_of_one_address_are_limited(
    hub: HubProcess, healthy_peers: HealthyPeers
) -> None:
    counted = Counted(hub)
    lines = [hub.dial("magline") for _ in range(40)]
    try:
        wait_until(
            lambda: counted.plain("refused") == {"handshakes_per_address": 8}, "eight are refused"
        )
        healthy_peers.check()
    finally:
        for line in lines:
            line.close()
    counted.wait_for_ends("magline", 40)


_DRIPPED = {
    "comet": comet.frame(comet.AUTH, comet.text("somebody") + comet.text("t" * 44)),
    "esnp": esnp.encoded(esnp.call_rows(1, "hub", "auth", {"id": "somebody", "token": "x" * 40})),
    "tny": tny.packet(1, 1, tny.message_bytes(tny.TnyMessage(1, 0, 10, body=b"{" + b" " * 50))),
    "magline": magline.Handshake().syn,
}


@pytest.mark.parametrize("listener", sorted(_DRIPPED))
@pytest.mark.usefixtures("healthy_peers")
def test_slow_senders_are_closed(hub: HubProcess, listener: str) -> None:
    counted = Counted(hub)
    line = hub.dial(listener)
    with pytest.raises(OSError, match=r"reset|Broken pipe|shut"):  # noqa: PT012
        for byte in _DRIPPED[listener]:
            line.send(bytes([byte]))
            time.sleep(0.2)  # the pace is what is tried out
    line.close()
    reasons = counted.wait_for_ends(listener, 1)
    assert set(reasons) <= {"too_slow", "auth_timeout"}, reasons


def _deaf(hub: HubProcess, listener: str) -> Line:
    """A connection with a tiny receive buffer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(hub.addresses[listener])
    return Line(sock)


@pytest.mark.parametrize("protocol", ["comet", "esnp", "tny", "magline"])
def test_a_peer_that_never_reads(
    hub: HubProcess, healthy_peers: HealthyPeers, protocol: str
) -> None:
    counted = Counted(hub)
    before_kb = hub.memory_kb()
    line, ask = _asking(hub, protocol)
    over = threading.Event()
    sender = threading.Thread(target=_ask_for_ever, args=(ask, over), daemon=True)
    sender.start()
    try:
        drops = wait_until(lambda: counted.drops(protocol), "it is dropped")
        reasons = counted.wait_for_ends(protocol, 1)
    finally:
        over.set()
        sender.join(20)
        line.close()
    assert not sender.is_alive()
    assert drops == reasons == {"slow_reader": 1}
    healthy_peers.check()
    assert hub.memory_kb() - before_kb < 40 * _MB


def _asking(hub: HubProcess, protocol: str) -> tuple[Line, Callable[[], object]]:
    """Return a signed-on connection and a request with a large response."""
    name, token = hub.client()
    line = _deaf(hub, protocol)
    large = bytes(60_000)
    if protocol == "esnp":
        caller = RawEsnp(line)
        caller.call("hub", "auth", {"id": name, "token": token})
        more = (esnp.PAYLOAD, large)
        return line, lambda: caller.send(
            esnp.call_rows(caller.next_number(), "test", "echo", {}, more)
        )
    if protocol == "tny":
        game = RawTny(line)
        game.ask(10, id=name, token=token)
        return line, lambda: game.request(1001, large)
    if protocol == "magline":
        client = RawMagline(line)
        client.hello()
        client.ask(10, id=name, token=token)
        return line, lambda: client.request(0x1001, large)
    RawComet(line).auth(name, token)
    return line, lambda: hub.publish(client=name, content="x" * 16_000, ttl_s=0)


def _ask_for_ever(ask: Callable[[], object], over: threading.Event) -> None:
    with suppress(OSError):
        while not over.is_set():
            ask()


def test_a_slow_reader_keeps_what_is_stored(hub: HubProcess, healthy_peers: HealthyPeers) -> None:
    counted = Counted(hub)
    name, token = hub.client()
    line = _deaf(hub, "comet")
    client = RawComet(line)
    client.auth(name, token)
    content = "x" * 16_000
    ids = [hub.publish(client=name, content=content)["id"] for _ in range(200)]
    healthy_peers.check()
    assert set(counted.drops("comet")) <= {"slow_reader"}
    line.close()
    again = RawComet(hub.dial("comet"))
    again.auth(name, token)
    got = []
    while page := again.messages():
        got += [note.id for note in page]
        again.ack(*(note.id for note in page))
    assert got == ids
    again.close()


_TINY = 64_000


@pytest.mark.parametrize("protocol", ["comet", "esnp", "tny"])
def test_tiny_frames_in_one_read(
    hub: HubProcess, healthy_peers: HealthyPeers, protocol: str
) -> None:
    before_kb = hub.memory_kb()
    name, token = hub.client()
    line = hub.dial(protocol)
    if protocol == "comet":
        RawComet(line).auth(name, token)
        frame, answer = comet.frame(6), b"\x00\x01\x00"
    elif protocol == "esnp":
        RawEsnp(line).call("hub", "auth", {"id": name, "token": token})
        frame, answer = bytes(4), b""
    else:
        RawTny(line).ask(10, id=name, token=token)
        frame, answer = tny.tick(1, "seed"), tny.tick(2, "seed")
    sender = threading.Thread(target=line.send, args=(frame * _TINY,))
    sender.start()
    healthy_peers.check()
    assert line.take(_TINY * len(answer)) == answer * _TINY
    sender.join()
    if protocol == "esnp":
        line.send(esnp.encoded(esnp.call_rows(5, "test", "add", {"a": 1, "b": 2})))
        assert RawEsnp(line).answer(5).data == {"c": 3}
    line.close()
    healthy_peers.check()
    assert hub.memory_kb() - before_kb < 30 * _MB


def test_more_commands_at_once_than_may_wait(hub: HubProcess, healthy_peers: HealthyPeers) -> None:
    counted = Counted(hub)
    name, token = hub.client()
    phone = RawComet(hub.dial("comet"))
    phone.auth(name, token)
    phone.line.send(comet.frame(2) * 5_000)
    rest = phone.line.rest()
    phone.close()
    assert rest.startswith(comet.frame(comet.TOPIC_LIST, b"\x00"))
    assert comet.frame(comet.ERROR, b"\x06")[2:] in rest  # too busy
    assert counted.wait_for_ends("comet", 1) == {"too_busy": 1}
    healthy_peers.check()


def test_guessing_tokens_is_slowed_and_counted(
    hub: HubProcess, healthy_peers: HealthyPeers
) -> None:
    counted = Counted(hub)
    name, token = hub.client()
    guesser = RawComet(hub.dial("comet"))
    for guess in ("t" + "0" * 43, "t" + "1" * 43, token[:-2]):
        with pytest.raises(CometError) as caught:
            guesser.auth(name, guess)
        assert caught.value.code == 0
    assert guesser.line.rest() == b""
    guesser.close()
    assert counted.plain("auth_failures") == {"comet": 3}
    healthy_peers.check()
    honest = RawComet(hub.dial("comet"))
    honest.auth(name, token)  # from the same address: late, but let in
    honest.heartbeat()
    honest.close()


def test_probes_do_not_wait_behind_idle_connections_without_descriptors(tmp_path: Path) -> None:
    """The limit of HTTP connections is larger than the number of descriptors."""
    few = 100
    with running_hub(tmp_path) as hub:
        _, hard = resource.prlimit(hub.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(hub.pid, resource.RLIMIT_NOFILE, (few, hard))
        phones = [hub.dial("comet") for _ in range(few)]  # half of the descriptors are left
        idle = [hub.dial("admin") for _ in range(2 * few)]
        try:
            for _ in range(3):
                assert hub.http("GET", "/healthz").status == 200
            found = hub.varz()
            assert found["refused"]["descriptors"] > 0
            assert found["drops"]["admin"]["admin_connections"] > few
            assert found["accept_errors"] == {}
        finally:
            for line in (*phones, *idle):
                line.close()
