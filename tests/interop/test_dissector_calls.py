"""What messages mean in tshark, compared with the tables of `wirelake read`, field by field."""

from __future__ import annotations

import random
import re
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dissector_calls import Message, call_differences, info_shown, messages_shown, rows_of
from dissector_pcap import Connection, capture, write_pcap
from dissector_streams import expected, vectors, write_script
from dissector_tshark import run

from wirelake.protocols.comet.layout import (
    Auth,
    Heartbeat,
    MessageList,
    Notification,
    Ok,
    Subscribe,
)
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.traffic.simulate import simulate

Packet = tuple[int, bytes]
"""A record of a capture: its time in microseconds, and its bytes."""

IN_ORDER = ("-o", "tcp.reassemble_out_of_order:TRUE")
COLUMNS = ("kind", "name", "message_id", "reply_to", "target", "status", "reason")


# -- simulated captures of all protocols ---------------------------------------------------------


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Captures of all protocols; the second one begins while connections are open."""
    folder = tmp_path_factory.mktemp("simulated")
    simulate(folder, size="300KB", seed=16, style="tcpdump", jobs=1)
    found = sorted(folder.glob("*.pcap"))
    assert len(found) > 1
    return found


def _script(folder: Path) -> Path:
    return write_script(folder, [find(name) for name in BUILT_IN])


def _read(path: Path) -> tuple[bytes, list[Packet]]:
    data, packets, at = path.read_bytes(), [], 24
    while at < len(data):
        seconds, fraction, size, _ = struct.unpack_from("<IIII", data, at)
        packets.append((seconds * 10**6 + fraction, data[at + 16 : at + 16 + size]))
        at += 16 + size
    return data[:24], packets


def _write(path: Path, head: bytes, packets: list[Packet]) -> Path:
    with path.open("wb") as out:
        out.write(head)
        for time, data in packets:
            out.write(struct.pack("<IIII", *divmod(time, 10**6), len(data), len(data)) + data)
    return path


def _direction(packet: Packet) -> bytes:
    return packet[1][26:38]  # both addresses and ports of TCP over IPv4


def unchanged(packets: list[Packet], chance: random.Random) -> list[Packet]:
    """The capture as it is."""
    del chance
    return packets


def repeated(packets: list[Packet], chance: random.Random) -> list[Packet]:
    """One packet in 20 was sent again a little later."""
    found: list[Packet] = []
    for packet in packets:
        found.append(packet)
        if chance.random() < 0.05:
            found.append((packet[0], found[-1 - chance.randrange(min(30, len(found)))][1]))
    return found


def swapped(packets: list[Packet], chance: random.Random) -> list[Packet]:
    """Neighbours of one direction change places."""
    found = list(packets)
    for index in range(len(found) - 1):
        one, other = found[index], found[index + 1]
        if _direction(one) == _direction(other) and chance.random() < 0.2:
            found[index], found[index + 1] = (one[0], other[1]), (other[0], one[1])
    return found


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, unchanged),
        (1, repeated),
        (0, swapped),
        *(
            pytest.param(number, change, marks=pytest.mark.soak)
            for number, change in ((1, unchanged), (0, repeated), (1, swapped))
        ),
    ],
)
def test_columns_and_calls_are_those_of_the_tables(
    simulated: list[Path],
    number: int,
    change: Callable[[list[Packet], random.Random], list[Packet]],
    tmp_path: Path,
) -> None:
    head, packets = _read(simulated[number])
    changed = change(packets, random.Random(f"{change.__name__} {number}"))
    file = _write(tmp_path / "capture.pcap", head, changed)
    script = _script(tmp_path)
    shown = messages_shown(script, file, *IN_ORDER)
    assert {message.protocol for message in shown} == set(BUILT_IN)
    assert call_differences(tmp_path, file, shown) == []
    wanted = Counter(_row(row) for row in rows_of(tmp_path, file, "messages"))
    found = Counter(_shown_row(message) for message in shown)
    assert (found - wanted, wanted - found) == (Counter(), Counter())
    _check_info(shown, info_shown(script, file, *IN_ORDER))


def test_repeated_packets_do_not_count(tmp_path: Path) -> None:
    """Without its analysis of TCP, Wireshark has them dissected: they are shown, and change no
    call."""
    payloads = [("c2s", _of_comet(Heartbeat())), ("s2c", _of_comet(Ok()))] * 3
    packets = list(Connection(9620, 50_000, payloads).packets())
    packets.insert(4, packets[3])
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    pairs = [(number * 1000, packet) for number, packet in enumerate(packets)]
    file = _write(tmp_path / "c.pcap", head, pairs)
    options = ("-o", "tcp.analyze_sequence_numbers:FALSE")
    shown = messages_shown(_script(tmp_path), file, *options)
    assert [m.frame for m in shown] == [4, 5, 6, 7, 8, 9, 10]
    assert [m.request_in for m in shown if m.kind == "response"] == [4, 7, 9]
    assert call_differences(tmp_path, file, shown) == []


def test_a_packet_that_repeats_another_and_has_more(tmp_path: Path) -> None:
    """Wireshark hands over what is new in it."""
    asked, answer = _of_comet(Heartbeat()), _of_comet(Ok())
    call = [("c2s", asked), ("s2c", answer)]
    packets = list(Connection(9620, 50_000, call * 3).packets())
    packets[6] = list(Connection(9620, 50_000, [call[0], ("s2c", answer * 2)]).packets())[4]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    pairs = [(number * 1_000_000, packet) for number, packet in enumerate(packets)]
    file = _write(tmp_path / "c.pcap", head, pairs)
    shown = messages_shown(_script(tmp_path), file, *IN_ORDER)
    assert [m.frame for m in shown] == [4, 5, 6, 7, 8, 9]
    assert [m.frame for m in shown if "gap" in m.experts] == []
    assert [m.request_in for m in shown if m.kind == "response"] == [4, 6, 8]
    assert call_differences(tmp_path, file, shown) == []


def test_what_was_not_captured_is_not_matched(simulated: list[Path], tmp_path: Path) -> None:
    """Where packets are missing, a link is missing or right."""
    head, packets = _read(simulated[0])
    chance = random.Random("missing")
    file = _write(tmp_path / "c.pcap", head, [p for p in packets if chance.random() > 0.02])
    for options in ((), IN_ORDER):
        shown = messages_shown(_script(tmp_path), file, *options)
        wrong = call_differences(tmp_path, file, shown)
        assert [line for line in wrong if line.startswith(("answered: only in tshark",))] == []
        assert any(message.latency is not None for message in shown)


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["protocol"], row["direction"], row["ts_ns"], *(row[name] for name in COLUMNS))


def _shown_row(message: Message) -> tuple[Any, ...]:
    columns = (message.columns.get(name) for name in COLUMNS)
    return (message.protocol, message.direction, message.ts_ns, *columns)


def _check_info(shown: list[Message], info: list[str]) -> None:
    """The Info column has kind, target, status and reason of each message."""
    packets: dict[int, list[Message]] = {}
    for message in shown:
        packets.setdefault(message.frame, []).append(message)
    for frame, messages in packets.items():
        text = re.sub(r"^\[TCP [^]]*\] ", "", info[frame - 1])
        if len(messages) > 8:
            assert text.endswith(" more")
            continue
        choices = ["|".join(map(re.escape, _texts(each, packets))) for each in messages]
        assert re.fullmatch(", ".join(f"({each})" for each in choices), text), (text, choices)


def _texts(message: Message, packets: dict[int, list[Message]]) -> set[str]:
    """What may stand for a message: a response has the target of one of the requests without an
    id in the packet that it names."""
    targets = {message.target}
    if message.target is None and message.request_in is not None:
        targets = {
            request.target
            for request in packets[message.request_in]
            if request.kind == "request"
            and request.protocol == message.protocol
            and request.message_id == message.reply_to
        }
        assert targets
    return {_text(message, target) for target in targets}


def _text(message: Message, target: str | None) -> str:
    words, noun = message.kind, target or message.name
    if noun != words:
        words = noun if words == "event" and not target else f"{words} {noun}"
    words += f": {message.status}" if message.status else ""
    return words + (f" ({message.reason})" if message.reason else "")


# -- made captures -------------------------------------------------------------------------------


def _shown(folder: Path, file: Path, *options: str) -> list[Message]:
    shown = messages_shown(_script(folder), file, *options)
    assert call_differences(folder, file, shown) == []
    return shown


def _of_comet(*bodies: Any) -> bytes:
    return b"".join(COMET.encode(body) for body in bodies)


def test_several_messages_in_one_segment(tmp_path: Path) -> None:
    """Requests in one packet, their responses in another one, by order."""
    asked = _of_comet(Auth(client_id="c", token="t"), Heartbeat(), Heartbeat())
    file = capture(tmp_path, 9620, [("c2s", asked), ("s2c", _of_comet(Ok(), Ok(), Ok()))])
    shown = _shown(tmp_path, file)
    assert [m.request_in for m in shown] == [None] * 3 + [4] * 3
    assert [m.response_in for m in shown] == [5] * 3 + [None] * 3
    assert {m.latency for m in shown[3:]} == {"0.001000000"}


def test_messages_over_several_segments(tmp_path: Path) -> None:
    """The packet that completes a message has its row, also when the size is known early."""
    asked = _of_comet(Subscribe(topics=("@news" * 10, "@sport" * 10)))
    answer = _of_comet(Ok(), Ok())
    payloads = [("c2s", asked[at : at + 20]) for at in range(0, len(asked), 20)]
    payloads += [("c2s", _of_comet(Heartbeat())), ("s2c", answer[:4]), ("s2c", answer[4:])]
    shown = _shown(tmp_path, capture(tmp_path, 9620, payloads))
    assert [m.kind for m in shown] == ["request", "request", "response", "response"]
    last = 3 + len(payloads)
    assert [m.request_in for m in shown[2:]] == [shown[0].frame, shown[1].frame]
    assert [m.frame for m in shown[2:]] == [last - 1, last]


@pytest.mark.parametrize("first", ["s2c", "c2s"])
def test_the_first_bytes_of_a_direction_are_missing(first: str, tmp_path: Path) -> None:
    """Order cannot be trusted from the beginning."""
    payloads = [("c2s", _of_comet(Heartbeat())), ("s2c", _of_comet(Ok()))] * 3
    packets = list(Connection(9620, 50_000, payloads).packets())
    del packets[3 if first == "c2s" else 4]
    file = _write(
        tmp_path / "c.pcap",
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1),
        [(number * 1000, packet) for number, packet in enumerate(packets)],
    )
    shown = _shown(tmp_path, file)
    assert all(m.request_in is None for m in shown)
    assert "gap" in [name for m in shown for name in m.experts]


def test_order_is_trusted_again_after_a_quiet_time(tmp_path: Path) -> None:
    """A capture that begins in a connection: requests count after 10 s of silence."""
    payloads = [("c2s", _of_comet(Heartbeat())), ("s2c", _of_comet(Ok()))] * 3
    packets = list(Connection(9620, 50_000, payloads).packets())[3:]
    times = [0, 1, 9_999_999, 10_000_001, 20_000_002, 20_000_003, 20_000_004, 20_000_005]
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    pairs = list(zip(times, packets, strict=True))
    shown = _shown(tmp_path, _write(tmp_path / "c.pcap", head, pairs))
    assert [m.response_in is not None for m in shown if m.kind == "request"] == [0, 0, 1]


def test_one_pass_shows_what_it_knows(tmp_path: Path) -> None:
    """Without a second pass a response names its request, and no request its response."""
    payloads = [("c2s", _of_comet(Heartbeat())), ("s2c", _of_comet(Ok()))]
    file, script = capture(tmp_path, 9620, payloads), _script(tmp_path)
    fields = [f"-ewirelake.{name}" for name in ("request_in", "response_in", "latency")]
    for passes in ((), ("-2",)):
        output = run(
            script, "-r", str(file), "-Y", "wirelake.kind", "-T", "fields", *passes, *fields
        )
        assert output.split("\n")[1].split("\t") == ["4", "", "0.001000000"]


# -- faults and what is not shown ------------------------------------------------------------------


def _experts(folder: Path, port: int, payloads: list[tuple[str, bytes]]) -> list[str]:
    shown = messages_shown(_script(folder), capture(folder, port, payloads))
    return [name for message in shown for name in message.experts]


@pytest.mark.parametrize("name", BUILT_IN)
def test_bytes_that_are_no_message(name: str, tmp_path: Path) -> None:
    """A fault is an expert item with the code of the decoder, and a line in the Info column."""
    protocol = find(name)
    assert protocol.port is not None
    bad: list[tuple[bytes, str]] = []
    for data in vectors(name):
        nodes = [node for node, _ in expected(protocol, protocol.dialects[0], "c2s", data)]
        if len(nodes) == 1 and nodes[0].problem is not None:
            bad.append((data, nodes[0].problem[0]))
    assert bad
    connections = [
        Connection(protocol.port, 20_000 + number, [("c2s", data)])
        for number, (data, _) in enumerate(bad)
    ]
    write_pcap(tmp_path / "c.pcap", connections)
    script = _script(tmp_path)
    shown = messages_shown(script, tmp_path / "c.pcap")
    info = info_shown(script, tmp_path / "c.pcap")
    assert [message.columns["fault"] for message in shown] == [code for _, code in bad]
    for message in shown:
        assert f"{name}.malformed" in message.experts
        assert "[malformed]" in info[message.frame - 1]


def test_sealed_messages(tmp_path: Path) -> None:
    """Encrypted content is said to be so: a stage, a body, an item that is marked."""
    tny = bytes.fromhex("746e792e08") + (20).to_bytes(4, "little") + b"\x01\x01" + bytes(18)
    assert _experts(tmp_path, 9610, [("c2s", tny)]) == ["sealed"]
    marked = Notification(msg_type=0, msg_id="m", content=b"\1\0\0\0" + bytes(40), ts=1)
    plain = Notification(msg_type=0, msg_id="m", content=b"\1\0\0\1" + bytes(40), ts=1)
    assert _experts(tmp_path, 9620, [("s2c", _of_comet(marked))]) == ["sealed"]
    assert _experts(tmp_path, 9620, [("s2c", _of_comet(plain))]) == []
    listed = _of_comet(MessageList(messages=(plain, marked)))
    assert "sealed" in _experts(tmp_path, 9620, [("s2c", listed)])


def test_a_relay_alone_shows_the_messages_in_its_tunnels(
    simulated: list[Path], tmp_path: Path
) -> None:
    """Their protocol need not be dissected itself."""
    script = write_script(tmp_path, [find("relay")], carried=[find("tny")])
    shown = messages_shown(script, simulated[0])
    assert {message.protocol for message in shown} == {"relay", "tny"}
    assert any(m.protocol == "tny" and m.latency is not None for m in shown)


def test_two_scripts_share_their_fields(tmp_path: Path) -> None:
    """Scripts of different protocols may be loaded together."""
    (tmp_path / "other").mkdir()
    one = write_script(tmp_path, [find("comet")])
    other = write_script(tmp_path / "other", [find("tny")])
    write_pcap(
        tmp_path / "c.pcap",
        [Connection(9620, 50_000, [("c2s", _of_comet(Heartbeat()))])],
    )
    output = run(
        one, "-X", f"lua_script:{other}", "-r", str(tmp_path / "c.pcap"), "-Y", "wirelake.kind"
    )
    assert "request heartbeat" in output
