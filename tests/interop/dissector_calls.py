"""Calls as tshark shows them and as `wirelake read --table calls` has them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from dissector_tshark import run

from wirelake.cli.main import main

__all__ = ["Message", "call_differences", "info_shown", "messages_shown"]

OPPOSITE = {"c2s": "s2c", "s2c": "c2s"}
_NUMBERS = ("message_id", "reply_to", "request_in", "response_in")


@dataclass
class Message:
    """A message in tshark's output, with the fields that all protocols share."""

    protocol: str
    frame: int
    ts_ns: int
    direction: str
    columns: dict[str, Any] = field(default_factory=dict)
    experts: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return self.columns.get(name)


_PASSES = ("-2", "-R", "tcp", "-r")


def messages_shown(script: Path, capture: Path, *options: str) -> list[Message]:
    """The messages of a capture, those in tunnels too."""
    output = run(script, *_PASSES, str(capture), *options, "-T", "pdml")
    # Text that is no XML: tshark writes what it finds in a packet.
    output = "".join(c if c in "\n\t" or " " <= c < "\ufffe" else "?" for c in output)
    found = []
    for packet in ElementTree.fromstring(output).iter("packet"):
        found += _messages(packet)
    return found


def info_shown(script: Path, capture: Path, *options: str) -> list[str]:
    """The Info column of each packet."""
    fields = ("-T", "fields", "-e", "_ws.col.Info")
    return run(script, *_PASSES, str(capture), *options, *fields).split("\n")[:-1]


def _messages(packet: ElementTree.Element) -> Iterator[Message]:
    protos = {proto.get("name", ""): proto for proto in packet.findall("proto")}
    if "tcp" not in protos:
        return
    values = {
        each.get("name"): each.get("show", "")
        for name in ("frame", "tcp")
        for each in protos[name].iter("field")
    }
    seconds, fraction = values["frame.time_epoch"].split(".")
    time = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
    ports = int(values["tcp.srcport"]), int(values["tcp.dstport"])
    direction = "c2s" if ports[0] > ports[1] else "s2c"
    for proto in packet.findall("proto"):
        name = proto.get("name", "")
        if name.startswith("wirelake."):
            frame = int(values["frame.number"])
            yield from _message(proto, name.removeprefix("wirelake."), frame, time, direction)


def _message(
    element: ElementTree.Element, protocol: str, frame: int, ts_ns: int, direction: str
) -> Iterator[Message]:
    message = Message(protocol, frame, ts_ns, direction)
    carried = []
    for each in element:
        name = each.get("name", "").removeprefix("wirelake.")
        if name == "carried":
            carried = list(_message(each, each.get("show", ""), frame, ts_ns, direction))
        elif name == "_ws.expert":
            names = (e.get("name", "") for e in each)
            message.experts += [n.removeprefix("wirelake.") for n in names if n[0] != "_"]
        elif "." not in name and each.tag == "field":
            shown = each.get("show", "")
            message.columns[name] = int(shown) if name in _NUMBERS else shown
    yield message
    yield from carried


def _nanoseconds(shown: str) -> int:
    seconds, _, fraction = shown.partition(".")
    sign = -1 if seconds.startswith("-") else 1
    return int(seconds) * 10**9 + sign * int(fraction.ljust(9, "0"))


def rows_of(folder: Path, capture: Path, table: str, *options: str) -> list[dict[str, Any]]:
    """The rows that `wirelake read` writes."""
    out = folder / f"{table}.jsonl"
    command = ["read", str(capture), "--table", table, "--to", "json", "-o", str(out)]
    assert main([*command, *options]) == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        for name in ("message_id", "reply_to"):
            if row.get(name) is not None:
                row[name] = int(row[name])  # ids are texts in JSON
    return rows


def call_differences(folder: Path, capture: Path, shown: list[Message]) -> list[str]:
    """What tshark and the table say differently about calls; empty when they agree."""
    calls = rows_of(folder, capture, "calls")
    times = {message.frame: message.ts_ns for message in shown}
    pairs = {
        "answered": (_answered(shown, times), _answered_rows(calls)),
        "requests": (_requests(shown, times), _request_rows(calls)),
        "orphans": (_orphans(shown), _orphan_rows(calls)),
        "unanswered": (_unanswered(shown), _unanswered_rows(calls)),
    }
    found = []
    for what, (mine, wanted) in pairs.items():
        found += [f"{what}: only in tshark: {row}" for row in (mine - wanted).elements()]
        found += [f"{what}: only in calls: {row}" for row in (wanted - mine).elements()]
    return found


# -- tshark ------------------------------------------------------------------------------------


def _answered(shown: list[Message], times: dict[int, int]) -> Counter[Any]:
    return Counter(
        (
            message.protocol,
            OPPOSITE[message.direction],
            message.status,
            message.reason,
            times[message.request_in],
            message.ts_ns,
            _nanoseconds(message.latency),
        )
        for message in shown
        if message.latency is not None
    )


def _requests(shown: list[Message], times: dict[int, int]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for message in shown:
        if message.kind == "request" and message.response_in is not None:
            key = (
                message.protocol,
                message.direction,
                message.message_id,
                message.target,
                message.ts_ns,
                times[message.response_in],
            )
            found[key] += 1
    return found


def _orphans(shown: list[Message]) -> Counter[Any]:
    return Counter(
        (
            message.protocol,
            OPPOSITE[message.direction],
            message.reply_to,
            message.status,
            message.ts_ns,
        )
        for message in shown
        if message.kind == "response" and message.request_in is None
    )


def _unanswered(shown: list[Message]) -> Counter[Any]:
    return Counter(
        (message.protocol, message.direction, message.message_id, message.target, message.ts_ns)
        for message in shown
        if "unanswered" in message.experts
    )


# -- the table ---------------------------------------------------------------------------------


def _answered_rows(calls: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(
        (
            row["protocol"],
            row["direction"],
            row["status"],
            row["reason"],
            row["request_ns"],
            row["response_ns"],
            row["latency_ns"],
        )
        for row in calls
        if row["request_ns"] is not None and row["response_ns"] is not None
    )


def _request_rows(calls: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(
        (
            row["protocol"],
            row["direction"],
            row["message_id"],
            row["target"],
            row["request_ns"],
            row["response_ns"],
        )
        for row in calls
        if row["request_ns"] is not None and row["response_ns"] is not None
    )


def _orphan_rows(calls: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(
        (row["protocol"], row["direction"], row["message_id"], row["status"], row["response_ns"])
        for row in calls
        if row["outcome"] == "orphan" and row["response_ns"] is not None
    )


def _unanswered_rows(calls: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(
        (row["protocol"], row["direction"], row["message_id"], row["target"], row["request_ns"])
        for row in calls
        if row["outcome"] in ("lost", "open")
    )
