"""Garbage, incomplete frames, oversized frames, and frames in the wrong state."""

from __future__ import annotations

import random
import struct

import pytest
from tests.adversity.counted import Counted
from tests.adversity.healthy_peers import HealthyPeers
from tests.hub_raw import raw_comet as comet
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw import raw_magline as magline
from tests.hub_raw import raw_relay as relay
from tests.hub_raw import raw_tny as tny
from tests.hub_raw.hub_process import HubProcess
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_magline import RawMagline
from tests.hub_raw.raw_tny import RawTny

_LISTENERS = ("comet", "esnp", "tny", "relay", "magline")
_OURS = ("eof", "peer_closed", "closed", "lost")
pytestmark = pytest.mark.usefixtures("healthy_peers")


def _protocol(listener: str) -> str:
    return "tny" if listener == "tny" else listener


@pytest.mark.parametrize("listener", _LISTENERS)
def test_garbage(hub: HubProcess, listener: str) -> None:
    chance = random.Random(listener)
    counted = Counted(hub)
    for _ in range(30):
        line = hub.dial(listener)
        line.send(chance.randbytes(chance.randrange(1, 3_000)))
        line.socket.shutdown(1)  # no more is coming; a hub that waits for the rest sees the end
        line.rest()
        line.close()
    reasons = counted.wait_for_ends(listener, 30)
    assert sum(reasons.values()) == 30
    assert "" not in reasons


_WHOLE = {
    "comet": comet.frame(comet.AUTH, comet.text("somebody") + comet.text("t" * 44)),
    "esnp": esnp.encoded(esnp.call_rows(1, "hub", "auth", {"id": "somebody", "token": "x"})),
    "tny": tny.packet(1, 1, tny.message_bytes(tny.TnyMessage(1, tny.REQUEST, 10, body=b"{}"))),
    "relay": relay.pack(1, relay.LINK_OPEN, 0, b"\x0a\x04game" + relay.fixed64(2, 1)),
    "magline": magline.Handshake().syn,
}


@pytest.mark.parametrize("listener", _LISTENERS)
def test_half_frames(hub: HubProcess, listener: str) -> None:
    counted = Counted(hub)
    whole = _WHOLE[listener]
    cuts = sorted({1, 2, 3, 5, 9, len(whole) // 2, len(whole) - 1})
    for cut in cuts:
        line = hub.dial(listener)
        line.send(whole[:cut])
        line.socket.shutdown(1)
        assert line.rest() == b""  # nothing was asked, so nothing is answered
        line.close()
    reasons = counted.wait_for_ends(listener, len(cuts))
    assert "" not in reasons


@pytest.mark.parametrize("listener", _LISTENERS)
def test_a_cut_in_the_middle(hub: HubProcess, listener: str) -> None:
    counted = Counted(hub)
    for _ in range(5):
        line = hub.dial(listener)
        line.send(_WHOLE[listener][:-1])
        line.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: hang up with a reset
        line.close()
    counted.wait_for_ends(listener, 5)


_TOO_LARGE = {
    "esnp": b"\x16\x00\x20\x00",
    "tny": b"tny.\x00" + struct.pack("<i", 1 << 24),
    "relay": b"rpk" + struct.pack("<i", 1 << 28) + bytes(13),
    "magline": struct.pack(">BBHHHII", 0x7F, 0x66, 1, 0, 0, 1, 1 << 20),
}


@pytest.mark.parametrize("listener", sorted(_TOO_LARGE))
def test_oversized_length_is_rejected_at_once(hub: HubProcess, listener: str) -> None:
    counted = Counted(hub)
    line = hub.dial(listener)
    line.send(_TOO_LARGE[listener])
    line.rest()  # it closes, though nothing but a head was sent
    line.close()
    assert counted.wait_for_ends(listener, 1)
    assert sum(counted.failures(listener).values()) == 1


def test_too_large_after_signing_on(hub: HubProcess) -> None:
    counted = Counted(hub)
    name, token = hub.client()
    caller = RawEsnp(hub.dial("esnp"))
    caller.call("hub", "auth", {"id": name, "token": token})
    caller.line.send(b"\x16\xff\xff\xff")  # 16 MiB are more than a message may have
    caller.line.rest()
    game = RawTny(hub.dial("tny"))
    game.ask(10, id=name, token=token)
    game.line.send(b"tny.\x00" + struct.pack("<i", (1 << 20) + 1))
    game.line.rest()
    line = RawMagline(hub.dial("magline"))
    line.hello()
    line.ask(10, id=name, token=token)
    line.line.send(struct.pack(">BBHHHII", 0x7E, 0x66, 6, 0, 0, 3, (1 << 20) + 1))
    assert line.last_words() == (5, 1)
    for each in (caller, game, line):
        each.close()
    for protocol in ("esnp", "tny", "magline"):
        assert counted.wait_for_ends(protocol, 1)
        assert counted.failures(protocol)


_WRONG_ORDER = {
    "comet": comet.frame(1, comet.text(bytes(80))),
    "magline": magline.head(magline.REQ, 1, {}, bytes(24)),
    "relay": relay.pack(1, relay.LINK_PING, 0),
}


@pytest.mark.parametrize("listener", sorted(_WRONG_ORDER))
def test_wrong_order(hub: HubProcess, listener: str) -> None:
    counted = Counted(hub)
    line = hub.dial(listener)
    line.send(_WRONG_ORDER[listener])
    if listener == "comet":
        assert line.take(4)[2:] == bytes([comet.ERROR, 5])
    else:
        line.rest()
    line.close()
    counted.wait_for_ends(listener, 1)
    assert sum(counted.failures(listener).values()) == 1


def test_server_only_messages_from_a_client_are_rejected(hub: HubProcess) -> None:
    line = RawMagline(hub.dial("magline"))
    line.hello()
    assert line.keys is not None
    frame = magline.data_frame(magline.PSH, line.next_seq(), {}, 20, b"x", line.keys)
    line.line.send(frame)
    assert line.last_words()[0] in (6, 9)
    line.close()


@pytest.mark.parametrize("spoilt", ["hmac", "replay", "reflected"])
def test_tampering_is_counted(hub: HubProcess, spoilt: str) -> None:
    counted = Counted(hub)
    name, token = hub.client()
    line = RawMagline(hub.dial("magline"))
    line.hello()
    line.ask(10, id=name, token=token)
    assert line.keys is not None
    good = magline.data_frame(magline.REQ, line.next_seq(), {}, 0x1001, b"x", line.keys)
    if spoilt == "replay":
        line.line.send(good)
        line.other()
        line.line.send(good)
    elif spoilt == "hmac":
        line.line.send(good[:-1] + bytes([good[-1] ^ 1]))
    else:
        keys = line.keys._replace(c2s_enc=line.keys.s2c_enc, c2s_mac=line.keys.s2c_mac)
        line.line.send(magline.data_frame(magline.REQ, 3, {}, 0x1001, b"x", keys))
    assert line.last_words() == (9, 1)
    line.close()
    counted.wait_for_ends("magline", 1)
    assert sum(counted.failures("magline").values()) == 1


def test_replayed_numbers_of_tny(hub: HubProcess) -> None:
    counted = Counted(hub)
    name, token = hub.client()
    game = RawTny(hub.dial("tny"))
    game.ask(10, id=name, token=token)
    again = tny.TnyMessage(5, tny.REQUEST, 1001, body=b"again")
    game.line.send(tny.packet(7, 1, tny.message_bytes(again)))
    assert game.line.rest() == b""
    game.close()
    assert counted.wait_for_ends("tny", 1) == {"number_replayed": 1}
    assert counted.failures("tny") == {"number_replayed": 1}


def test_deep_nesting_is_bounded(hub: HubProcess, healthy_peers: HealthyPeers) -> None:
    value = b"\x17\x02" * 100_000 + b"\x00"
    rows = esnp.call_rows(900, "test", "add", {}, (esnp.DATA, b"\x02a" + value))
    healthy_peers.esnp.send(rows)
    answer = healthy_peers.esnp.answer(900)
    assert answer.error is not None
    assert hub.alive
