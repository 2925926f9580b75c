"""Whatever happens to a capture, every byte is accounted for, and nothing is raised."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.capture.decode.reference import read_tables

from .frames_made import PROTOCOLS, talk
from .tcp_made import Call, Made, write

PORTS = {"esnp": 9600, "tny": 9610, "relay": 9611, "magline": 9757, "comet": 9620}
UNKNOWN = 4_000
Rows = dict[str, list[dict[str, Any]]]
Stream = tuple[int, str]


@functools.cache
def conversation(protocol: str, number: int, known: bool) -> tuple[Made, ...]:
    """A connection with segments that are cut inside of frames."""
    call = Call(PORTS[protocol] if known else UNKNOWN, 50_000 + number)
    call.isn["c2s"] = 0xFFFF_FF00
    call.open()
    for way, frame in talk(protocol):
        call.say(way, frame, size=70)
    return tuple(call.close().packets)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[list[Made], list[tuple[int, int]], int]:
    """Packets after losses, copies, cuts and changes; changes to the file; how much is cut off."""
    packets: list[Made] = []
    for number, protocol in enumerate(draw(st.lists(st.sampled_from(PROTOCOLS), max_size=3))):
        packets += conversation(protocol, number, draw(st.booleans()))
    places = st.integers(0, max(0, len(packets) - 1))
    for at in draw(st.lists(places, max_size=6)) if packets else ():
        packet, other = packets[at], packets[draw(places)]
        match draw(st.sampled_from(["lose", "copy", "move", "cut", "change"])):
            case "lose" if len(packets) > 1:
                packets[at] = other
            case "copy":
                packets.insert(draw(places), packet)
            case "move":
                packets[at], packets[packets.index(other)] = other, packet
            case "cut":
                size = draw(st.integers(40, len(packet.data)))
                packets[at] = Made(packet.ts_ns, packet.data[:size], packet.original)
            case "change":
                data = bytearray(packet.data)
                data[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
                packets[at] = Made(packet.ts_ns, bytes(data), packet.original)
    flips = draw(st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 255)), max_size=4))
    return packets, flips, draw(st.sampled_from([0, 0, 1, 50, 2_000]))


def decoded(packets: Sequence[Made], flips: list[tuple[int, int]], cut: int) -> Rows:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "damaged.pcap", packets)
        data = bytearray(path.read_bytes())
        for at, value in flips:
            if at < len(data):
                data[at] = value
        path.write_bytes(data[: max(0, len(data) - cut)])
        rows: Rows = {table: [] for table in ("messages", "packets", "faults", "coverage")}
        for table, row in read_tables([path]):
            rows[table].append(row)
        return rows


def summed(rows: list[dict[str, Any]], column: str) -> Counter[Stream]:
    total: Counter[Stream] = Counter()
    for row in rows:
        total[row["connection"], row["direction"]] += row[column]
    return total


@settings(max_examples=150)
@given(damaged())
def test_coverage_adds_up(damage: tuple[list[Made], list[tuple[int, int]], int]) -> None:
    rows = decoded(*damage)
    for row in rows["coverage"]:
        assert row["payload_bytes"] == row["new_bytes"] + row["duplicate_bytes"]
        assert row["span_bytes"] == row["new_bytes"] + row["gap_bytes"]
        assert row["new_bytes"] == (
            row["decoded_bytes"]
            + row["faulty_bytes"]
            + row["undecryptable_bytes"]
            + row["ignored_bytes"]
        )
    messages = [row for row in rows["messages"] if row["tunnel_link"] is None]
    of_streams = [row for row in rows["faults"] if row["connection"] is not None]
    segments = [row for row in rows["packets"] if row["connection"] is not None]
    counted = {
        "payload_bytes": summed(segments, "payload_bytes"),
        "faulty_bytes": summed(of_streams, "present_bytes"),
        "decoded_bytes": summed([m for m in messages if not m["sealed"]], "size_bytes"),
        "undecryptable_bytes": summed([m for m in messages if m["sealed"]], "size_bytes"),
        "packets": Counter((row["connection"], row["direction"]) for row in segments),
        "messages": Counter((row["connection"], row["direction"]) for row in messages),
        "faults": Counter((row["connection"], row["direction"]) for row in of_streams),
    }
    for column, expected in counted.items():
        assert +summed(rows["coverage"], column) == +expected, column
    known = [row for row in rows["coverage"] if row["protocol"] is not None]
    assert +summed(known, "gap_bytes") == +summed(of_streams, "missing_bytes")


def bare(row: dict[str, Any]) -> str:
    """A row without its place."""
    return repr({name: value for name, value in row.items() if name not in ("file", "offset")})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_one_loss_leaves_is_still_right(protocol: str) -> None:
    """One packet less: every message that it did not touch is there, and nothing is added."""
    packets = conversation(protocol, 0, known=True)
    whole = Counter(bare(row) for row in decoded(packets, [], 0)["messages"])
    # A segment of 70 bytes touches two frames at most; one of a tunnel has two rows. Without a
    # magic, what follows is lost up to the next frame that begins with a segment.
    touched = 2 * (2 if protocol == "relay" else 1) * (2 if protocol in ("comet", "esnp") else 1)
    for at in range(4, len(packets) - 2):
        rows = decoded(packets[:at] + packets[at + 1 :], [], 0)
        after = Counter(bare(row) for row in rows["messages"])
        assert after <= whole
        assert (whole - after).total() <= touched
        assert [row["code"] for row in rows["faults"]] == ["gap"]
