"""Sign-ons, notifications and acknowledgements that are calls of a hub, in plain captures.

The same conversation in each protocol that uses these calls, without any fact of a recorder: the
tables have its clients and deliveries, by the engines and by the folds.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.capture.tcp_made import Call, write
from tests.columnar.differential import differences as reader_differences
from tests.columnar.folding import differences, engine_rows, fold_rows, read_rows, windows_of
from tests.columnar.oracle import engine_tables

from wirelake.capture.decode.events import EVENT_TABLES, engine_event
from wirelake.capture.decode.reference import read_tables
from wirelake.capture.format.items import Direction
from wirelake.protocols import registry
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp.values import data_rows
from wirelake.protocols.hub_calls import ACK, AUTH, NOTIFY_NUMBER
from wirelake.protocols.magline import session as magline
from wirelake.protocols.tny import codec_seed as tny_codec
from wirelake.protocols.tny import layout as tny
from wirelake.records.deliveries import DeliveriesEngine
from wirelake.records.engine import feed_event
from wirelake.records.rollups import rollup
from wirelake.records.rows import in_order
from wirelake.records.tunnels import tunnel_connection

pytestmark = pytest.mark.slow

TS_MS = 1_767_225_600_000
ECHO = 1001
TARGETS = {AUTH.number: "hub/auth", ACK.number: "hub/ack", NOTIFY_NUMBER: "hub/notify"}

Arguments = dict[str, Any]


class Peers(ABC):
    """A client and a hub; each method returns the frame that one of them sends."""

    def opening(self) -> list[tuple[Direction, bytes]]:
        """Return the frames of a handshake."""
        return []

    def keys(self) -> str:
        """Return a line of a key log."""
        return ""

    @abstractmethod
    def ask(self, number: int, call: int, given: Arguments) -> bytes:
        """A request of the client."""

    @abstractmethod
    def answer(self, number: int, call: int, result: Arguments | None) -> bytes:
        """The hub's response; None refuses."""

    @abstractmethod
    def notify(self, given: Arguments) -> bytes:
        """A notification."""


class Esnp(Peers):
    port = 9_600

    @staticmethod
    def _encoded(*rows: esnp.Row) -> bytes:
        return registry.find("esnp").encode(esnp.Message(rows=rows))

    @staticmethod
    def _address(call: int) -> tuple[esnp.Row, ...]:
        service, _, op = TARGETS.get(call, "test/echo").partition("/")
        kinds = (esnp.AddressKind.SERVICE, service), (esnp.AddressKind.OP, op)
        return tuple(esnp.Address(kind=kind, value=value) for kind, value in kinds)

    def ask(self, number: int, call: int, given: Arguments) -> bytes:
        flag, id_row = esnp.Flag(value=esnp.FlagType.REQUEST), esnp.MessageId(value=number)
        return self._encoded(flag, id_row, *self._address(call), *data_rows(given))

    def answer(self, number: int, call: int, result: Arguments | None) -> bytes:  # noqa: ARG002
        head: list[esnp.Row] = [esnp.Flag(value=esnp.FlagType.RESP)]
        if result is None:
            head.append(esnp.Error(value="refused"))
        return self._encoded(*head, esnp.SourceMessageId(value=number), *data_rows(result or {}))

    def notify(self, given: Arguments) -> bytes:
        flag = esnp.Flag(value=esnp.FlagType.EVENT)
        return self._encoded(flag, *self._address(NOTIFY_NUMBER), *data_rows(given))


class Tny(Peers):
    port = 9_610

    def _encoded(self, message: tny.Message) -> bytes:
        content = tny_codec.write_message(message)
        packet = tny.Packet(body=tny.Envelope(access_id=5, number=6, content=content))
        return registry.find("tny").encode(packet)

    def ask(self, number: int, call: int, given: Arguments) -> bytes:
        return self._encoded(tny.Message(id=number, protocol=call, body=json.dumps(given).encode()))

    def answer(self, number: int, call: int, result: Arguments | None) -> bytes:
        made: Arguments = {"id": 1_000 + number, "mode": tny.Mode.RESPONSE, "to_message": number}
        if result is None:
            return self._encoded(tny.Message(**made, protocol=call, code=500))
        return self._encoded(tny.Message(**made, protocol=call, body=json.dumps(result).encode()))

    def notify(self, given: Arguments) -> bytes:
        body = json.dumps(given).encode()
        made = tny.Message(id=9, mode=tny.Mode.PUSH, protocol=NOTIFY_NUMBER, body=body)
        return self._encoded(made)


class Relay(Tny):
    """Messages of tny in a tunnel."""

    port = 9_611

    def _encoded(self, message: tny.Message) -> bytes:
        carried = tny.TunnelRelay(instance_id=1, tunnel_id=2, message=message)
        return registry.find("relay").encode(tny.RelayPacket(id=3, arguments=carried))


class Magline(Peers):
    port = 9_757

    def __init__(self) -> None:
        drawn = [0]

        def entropy(size: int) -> bytes:
            drawn[0] += 1
            return bytes([drawn[0]]) * size

        anonymous = magline.ClientKey(allow_anonymous=True)
        self.client = magline.ClientSession(key=anonymous, entropy=entropy)
        hub_keys = magline.ServerKeys(allow_anonymous=True)
        self.hub = magline.ServerSession(keys=hub_keys, entropy=entropy)

    def opening(self) -> list[tuple[Direction, bytes]]:
        self.client.connect()
        found: list[tuple[Direction, bytes]] = []
        while up := self.client.to_send():
            self.hub.receive(up, 0.0)
            down = self.hub.to_send()
            self.client.receive(down, 0.0)
            found += [("c2s", up), ("s2c", down)] if down else [("c2s", up)]
        self.client.events()
        self.hub.events()
        return found

    def keys(self) -> str:
        return self.client.key_log()

    def ask(self, number: int, call: int, given: Arguments) -> bytes:  # noqa: ARG002 - it counts
        self.client.send(magline.Request(call, json.dumps(given).encode()))
        sent = self.client.to_send()
        self.hub.receive(sent, 0.0)
        (self.asked,) = [
            event for event in self.hub.events() if isinstance(event, magline.Requested)
        ]
        return sent

    def answer(self, number: int, call: int, result: Arguments | None) -> bytes:  # noqa: ARG002
        seq = self.asked.seq
        self.hub.send(
            magline.Failure(seq)
            if result is None
            else magline.Reply(seq, json.dumps(result).encode())
        )
        return self.hub.to_send()

    def notify(self, given: Arguments) -> bytes:
        self.hub.send(magline.Push(NOTIFY_NUMBER, json.dumps(given).encode()))
        return self.hub.to_send()


PROTOCOLS: dict[str, Callable[[], Any]] = {
    "esnp": Esnp,
    "tny": Tny,
    "magline": Magline,
    "relay": Relay,
}


def _capture(folder: Path, protocol: str) -> tuple[list[str], list[str]]:
    """Two connections of one client, and one whose sign-on is refused."""
    packets, keys = [], []
    for at, (client, notes, acked) in enumerate(
        [
            ("alice", ["n1", "n2"], {"ids": ["n1"]}),
            ("alice", ["n2"], {"id": "n2", "ids": ["n3"]}),
            (None, ["n4"], {"id": "n4"}),
        ]
    ):
        peers = PROTOCOLS[protocol]()
        call = Call(peers.port, 50_000 + at, now_ns=TS_MS * 1_000_000 + at * 10**9).open()
        for way, data in peers.opening():
            call.say(way, data)

        def exchange(
            number: int,
            target: int,
            given: Arguments,
            result: Arguments | None,
            call: Call = call,
            peers: Any = peers,
        ) -> None:
            call.say("c2s", peers.ask(number, target, given))
            call.say("s2c", peers.answer(number, target, result))

        exchange(1, AUTH.number, {"id": "mallory", "token": "wrong"}, None)
        if client is not None:
            exchange(2, AUTH.number, {"id": client, "token": "right"}, {"id": client})
            exchange(3, AUTH.number, {"id": "mallory", "token": "right"}, None)
        exchange(4, ECHO, {"id": "no client"}, {"id": "no client"})
        for note in notes:
            call.say("s2c", peers.notify({"id": note, "topic": "@t", "content": "x", "ts": TS_MS}))
        exchange(5, ACK.number, acked, {"acked": 1})
        packets += call.close().packets
        keys.append(peers.keys())
    key_log = folder / "talk.keys"
    key_log.write_text("\n".join(keys))
    path = write(folder / "talk.pcap", packets)
    return [str(path)], [str(key_log)] if any(keys) else []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_clients_of_calls_and_connections(tmp_path: Path, protocol: str) -> None:
    paths, keys = _capture(tmp_path, protocol)
    assert reader_differences(paths, keys=keys) == []
    windows = windows_of(paths, keys=keys)
    tables = engine_tables(("calls", "connections"), windows)
    calls = sorted(tables["calls"].to_pylist(), key=lambda row: row["request_ns"])
    # A call to sign on has the client that it names; the others have the one who is signed on.
    refused, signed_on = ["mallory"], ["mallory", "alice", "mallory", "alice", "alice"]
    if protocol == "relay":  # one tunnel on three links: it keeps its client
        assert [row["client"] for row in calls] == [
            *signed_on,
            *["mallory", "alice", "mallory", "alice", "alice"],
            *["mallory", "alice", "alice"],
        ]
        return
    assert [row["client"] for row in calls] == [*signed_on, *signed_on, *refused, None, None]
    connections = sorted(tables["connections"].to_pylist(), key=lambda row: row["first_ns"])
    assert [row["client"] for row in connections] == ["alice", "alice", None]
    first, second, _ = connections
    assert second["previous_connection"] == first["connection"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_notifications_and_acknowledgements(tmp_path: Path, protocol: str) -> None:
    paths, keys = _capture(tmp_path, protocol)
    (table,) = engine_tables(["deliveries"], windows_of(paths, keys=keys)).values()
    found = {row["notification"]: row for row in table.to_pylist()}
    about = {name: (row["outcome"], row["sends"], row["acks"]) for name, row in found.items()}
    assert about == {
        "n1": ("acked", 1, 1),
        "n2": ("acked", 2, 1),
        "n3": ("orphan", 0, 1),
        "n4": ("acked", 1, 1),
    }
    clients = {name: row["client"] for name, row in found.items()}
    one_tunnel = protocol == "relay"  # on three links: it keeps its client
    last = "alice" if one_tunnel else None
    assert clients == {"n1": "alice", "n2": "alice", "n3": "alice", "n4": last}
    assert (found["n2"]["first_connection"] == found["n2"]["acked_connection"]) is one_tunnel
    if one_tunnel:
        assert found["n1"]["first_connection"] == tunnel_connection(1, 2)
    published = {row["published_ns"] for name, row in found.items() if name != "n3"}
    assert published == {TS_MS * 1_000_000}


@pytest.mark.parametrize("lost", ["c2s", "s2c", None])
def test_a_gap_of_a_link_may_hide_acknowledgements_in_its_tunnels(
    tmp_path: Path, lost: Direction | None
) -> None:
    peers = Relay()
    call = Call(peers.port).open()
    call.say("c2s", peers.ask(1, AUTH.number, {"id": "alice", "token": "x"}))
    call.say("s2c", peers.answer(1, AUTH.number, {"id": "alice"}))
    call.say("s2c", peers.notify({"id": "n1", "topic": "@t", "content": "x", "ts": 1}))
    if lost is not None:
        call.lose(lost, 60)
    call.say("c2s", peers.ask(2, ECHO, {})).say("s2c", peers.answer(2, ECHO, {})).close()
    windows = windows_of([str(write(tmp_path / "gap.pcap", call.packets))])
    wanted = engine_rows(windows)
    assert differences(wanted, read_rows(windows)) == []
    (table,) = engine_tables(["deliveries"], windows).values()
    (row,) = table.to_pylist()
    assert (row["client"], row["outcome"]) == ("alice", "unknown" if lost == "c2s" else "unacked")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_folds_agree_with_engines(tmp_path: Path, protocol: str) -> None:
    paths, keys = _capture(tmp_path, protocol)
    windows = windows_of(paths, keys=keys, window_bytes=65_536)
    wanted = engine_rows(windows)
    assert differences(wanted, read_rows(windows)) == []
    for shares in (1, 3):
        [given] = fold_rows(windows, [(len(windows), shares)])
        assert differences(wanted, given) == []


@pytest.mark.parametrize("protocol", ["esnp", "tny", "relay"])
def test_the_reference_reader_gives_engines_the_same(tmp_path: Path, protocol: str) -> None:
    """Its rows are dicts, not batches: publication times are found in them, too."""
    paths, _ = _capture(tmp_path, protocol)
    engine = DeliveriesEngine()
    events = [engine_event(table, row) for table, row in read_tables(paths, tables=EVENT_TABLES)]
    for event in in_order([each for each in events if each is not None]):
        feed_event(engine, event)
    engine.finish()
    found = {row.notification: row for row in engine.take()}
    assert found["n1"].published_ns == TS_MS * 1_000_000
    assert found["n2"].sends == 2


BAD_ARGUMENTS: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'{"id": 7}',
    b'{"id": ["a", 7]}',
    b'{"id": "\xff"}',
    b'{"id": "\\ud800"}',
    b'{"id": {"id": "a"}}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", BAD_ARGUMENTS)
def test_arguments_of_other_types_are_absent(tmp_path: Path, body: bytes) -> None:
    peers, call = Tny(), Call(Tny.port).open()
    for number, target in enumerate((AUTH.number, ACK.number), 1):
        call.say("c2s", peers._encoded(tny.Message(id=number, protocol=target, body=body)))
    path = str(write(tmp_path / "bad.pcap", call.close().packets))
    assert reader_differences([path]) == []
    rows = [row for table, row in read_tables([path], tables=["messages"]) if table == "messages"]
    assert [(row["client"], row["ids"]) for row in rows] == [(None, None)] * 2


def test_bytes_in_tunnels_count_once(tmp_path: Path) -> None:
    """For each protocol, traffic has the bytes that coverage has."""
    paths, _ = _capture(tmp_path, "relay")
    rows: dict[str, list[dict[str, Any]]] = {"messages": [], "coverage": []}
    for table, row in read_tables(paths, tables=tuple(rows)):
        rows[table].append(row)
    assert {row["protocol"] for row in rows["messages"]} == {"relay", "tny"}
    traffic: Counter[str] = Counter()
    for row in rollup("traffic_minutes", messages=rows["messages"]):
        traffic[row["protocol"]] += row["bytes"]
    covered: Counter[str] = Counter()
    for row in rows["coverage"]:
        covered[row["protocol"]] += row["decoded_bytes"] + row["undecryptable_bytes"]
    assert +traffic == +covered
