"""The flows inside TLS, over IPv4 and IPv6; certificates are changed without a restart."""

from __future__ import annotations

import json
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.hub_raw.hub_process import HubProcess, running_hub, wait_until
from tests.hub_raw.line import Line, dial
from tests.hub_raw.raw_comet import RawComet
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_magline import RawMagline
from tests.hub_raw.raw_relay import RawLink
from tests.hub_raw.raw_tny import RawTny
from tests.hub_raw.throwaway_tls import Certificate, dial_tls, make_certificate

_LISTENERS = ("esnp", "tny", "relay", "magline", "comet")
Dial = Callable[[str], Line]


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[HubProcess, Certificate, Path]]:
    """A hub with TLS on every listener."""
    folder = tmp_path_factory.mktemp("tls")
    certificate = make_certificate(folder)
    changes = {listener: {"tls": certificate.settings} for listener in _LISTENERS}
    with running_hub(folder, changes) as hub:
        yield hub, certificate, folder


@pytest.fixture
def dial_in(secured: tuple[HubProcess, Certificate, Path]) -> Iterator[Dial]:
    """Dials a listener inside TLS; hangs up at the end."""
    hub, certificate, _ = secured
    lines = []

    def dial_listener(listener: str) -> Line:
        lines.append(dial_tls(hub.addresses[listener], certificate))
        return lines[-1]

    yield dial_listener
    for line in lines:
        line.close()


@pytest.fixture
def client(secured: tuple[HubProcess, Certificate, Path]) -> tuple[HubProcess, str, str]:
    """The hub, and a new client's id and token."""
    return (secured[0], *secured[0].client())


@pytest.mark.parametrize("sealed", [False, True], ids=["clear", "sealed"])
def test_comet(client: tuple[HubProcess, str, str], dial_in: Dial, sealed: bool) -> None:
    hub, name, token = client
    phone = RawComet(dial_in("comet"))
    phone.auth(name, token)
    if sealed:
        phone.exchange_key()
    phone.subscribe("@tls")
    ids = [hub.publish(topic="@tls", content="x" * 10_000)["id"] for _ in range(20)]
    assert [phone.next_push().id for _ in ids] == ids
    page = phone.messages()
    assert [note.id for note in page] == ids[: len(page)]
    phone.ack(*ids)
    assert phone.messages() == []
    phone.unsubscribe("@tls")


def test_esnp(client: tuple[HubProcess, str, str], dial_in: Dial) -> None:
    hub, name, token = client
    caller = RawEsnp(dial_in("esnp"))
    caller.call("hub", "auth", {"id": name, "token": token})
    assert caller.call("test", "add", {"a": 1, "b": 2}) == {"c": 3}
    caller.call("hub", "subscribe", {"topic": "@tls/esnp"})
    wanted = hub.publish(topic="@tls/esnp", content="x")["id"]
    assert caller.next_event().data["id"] == wanted


def test_tny(client: tuple[HubProcess, str, str], dial_in: Dial) -> None:
    _, name, token = client
    game = RawTny(dial_in("tny"))
    game.ping()
    game.ask(10, id=name, token=token)
    assert game.call(1001, bytes(100_000)) == bytes(100_000)


def test_relay(client: tuple[HubProcess, str, str], dial_in: Dial) -> None:
    hub, name, token = client
    link = RawLink(dial_in("relay"))
    assert link.open()
    tunnel = link.tunnel(1)
    tunnel.call(10, id=name, token=token)
    tunnel.call(11, topic="@tls/relay")
    wanted = hub.publish(topic="@tls/relay", content="x")["id"]
    assert json.loads(tunnel.next_push().body or b"")["id"] == wanted
    link.ping()


def test_magline(client: tuple[HubProcess, str, str], dial_in: Dial) -> None:
    _, name, token = client
    line = RawMagline(dial_in("magline"))
    line.hello()
    line.ask(10, id=name, token=token)
    assert line.ask(0x1002, a=1, b=2) == {"c": 3}
    line.ping()


def test_plaintext_bytes_are_refused(secured: tuple[HubProcess, Certificate, Path]) -> None:
    hub, _, _ = secured
    line = dial(hub.addresses["comet"])
    line.send(b"\x00\x01\x06")
    line.socket.shutdown(1)
    assert b"\x00\x01\x00" not in line.rest()
    line.close()


def test_certificates_are_read_again(secured: tuple[HubProcess, Certificate, Path]) -> None:
    hub, certificate, folder = secured
    before = dial_tls(hub.addresses["comet"], certificate)
    newer = make_certificate(folder, "newer")
    certificate.certificate.write_bytes(newer.certificate.read_bytes())
    certificate.key.write_bytes(newer.key.read_bytes())
    hub.tell(signal.SIGHUP)

    def changed() -> bool:
        try:
            line = dial_tls(hub.addresses["comet"], newer)
        except ssl.SSLError:
            return False
        RawComet(line).heartbeat()
        line.close()
        return True

    wait_until(changed, "the new certificate is shown")
    RawComet(before).heartbeat()  # who is there stays
    before.close()


def test_ipv6(tmp_path: Path) -> None:
    with running_hub(tmp_path, {listener: {"host": "::1"} for listener in _LISTENERS}) as hub:
        name, token = hub.client()
        assert {
            host for listener, (host, _) in hub.addresses.items() if listener in _LISTENERS
        } == {"::1"}
        caller = RawEsnp(hub.dial("esnp"))
        caller.call("hub", "auth", {"id": name, "token": token})
        phone = RawComet(hub.dial("comet"))
        phone.auth(name, token)
        phone.heartbeat()
        caller.close()
        phone.close()
