"""A link that falls silent while something of it waits does not make tables depend on the cut.

A tunnel begins on one link. Something is missing there, and nothing follows; the tunnel goes on
over another link. What the first link has for the tunnel becomes known when the capture has gone on
for a while, not when a packet of that link comes: there is none.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.capture.tcp_made import T0, Call, Made, write
from tests.lake.cut_captures import age
from tests.lake.lakes import columnar_rows, lake_rows, reference_rows, unlike
from tests.lake.local_engine import run_here

from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import RELAY

pytestmark = pytest.mark.slow

_SECOND = 1_000_000_000
_LONGEST_NS = 300 * _SECOND
"""More than anything waits: two minutes for a hole, four for a fault or a protocol."""
_SILENCE_S = 2_000
_KINDS = ("hole", "cut", "fault", "protocol")


def _frame(arguments: tny.Arguments, number: int = 1) -> bytes:
    return RELAY.encode(tny.RelayPacket(id=number, arguments=arguments))


def _relay(message: tny.Message) -> bytes:
    return _frame(tny.TunnelRelay(instance_id=7, tunnel_id=1, message=message))


_CONNECT = _frame(tny.TunnelConnect(instance_id=7, tunnel_id=1, ip=b"\x0a\0\0\1", port=9))
_DISCONNECT = _frame(tny.TunnelDisconnect(instance_id=7, tunnel_id=1))
_REQUEST = _relay(tny.Message(id=5, protocol=1001))
_OTHER = _relay(tny.Message(id=6, protocol=1001))
_ANSWER = _relay(tny.Message(id=8, mode=tny.Mode.RESPONSE, to_message=5, code=100))


def _packets(kind: str) -> list[Made]:
    port = RELAY.port or 0
    silent = Call(5_999 if kind == "protocol" else port, client_port=50_001).open()
    silent.say("c2s", _CONNECT)
    if kind == "hole":
        silent.say("c2s", _REQUEST).lose("c2s", 10).say("c2s", _DISCONNECT)
    elif kind == "cut":
        silent.say("c2s", _REQUEST).packet("s2c", 0, _ANSWER, captured=3)
    elif kind == "fault":
        silent.say("c2s", _REQUEST).say("s2c", b"\xff" * 40)
    else:
        silent.packets.pop()
        silent.sent["c2s"] = 0
        silent.say("c2s", _CONNECT[:3])
    other = Call(port, client_port=50_002, now_ns=silent.now_ns).open()
    other.say("c2s", _OTHER).say("s2c", _ANSWER)
    if kind != "hole":
        other.say("c2s", _DISCONNECT)
    for _ in range(0, _SILENCE_S, 5):
        other.now_ns += 5 * _SECOND
        other.say("c2s", _frame(tny.LinkPing()))
    return [*silent.packets, *other.packets]


def _files(folder: Path, packets: list[Made], count: int) -> list[Path]:
    folder.mkdir()
    cuts = [len(packets) * at // count for at in range(count + 1)]
    return [
        age(write(folder / f"tap-{number:08}.pcap", packets[start:stop]))
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]


@pytest.mark.parametrize("kind", _KINDS)
def test_tables_do_not_depend_on_the_cut(tmp_path: Path, kind: str) -> None:
    packets = _packets(kind)
    [whole] = _files(tmp_path / "whole", packets, 1)
    files = _files(tmp_path / "files", packets, 9)
    wanted = reference_rows([whole], [])
    run_here(tmp_path / "lake", tmp_path / "files", max_files=1, window_bytes=2_000)
    found: dict[str, Any] = {
        "files": reference_rows(files, []),
        "windows": columnar_rows([whole], [], 2_000),
        "lake": lake_rows(tmp_path / "lake"),
    }
    assert [f"{name}: {each}" for name in found for each in unlike(found[name], wanted)] == []


@pytest.mark.parametrize("kind", _KINDS)
def test_nothing_waits_for_long(tmp_path: Path, kind: str) -> None:
    [whole] = _files(tmp_path / "whole", _packets(kind), 1)
    pipeline = CapturePipeline(
        str(whole), tables=("messages", "connections", "facts", "faults"), window_bytes=2_000
    )
    waited = False
    for window in pipeline.windows(last=False):
        items: dict[str, Any] = dict(window)
        if "messages" not in items:
            continue
        now_ns = max(items["messages"].column("ts_ns").to_pylist())
        since = [ts_ns for ts_ns in items["waiting"].values() if ts_ns < now_ns]
        waited |= bool(since)
        assert all(now_ns - ts_ns <= _LONGEST_NS for ts_ns in since)
    assert waited


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("hours", [-1, 0])
def test_captures_of_earlier_times_may_follow(tmp_path: Path, hours: int, joined: bool) -> None:
    """As files of their own, or joined into one."""
    first = Call(RELAY.port or 0, client_port=50_001).open().say("c2s", _CONNECT).say("c2s", _OTHER)
    second = Call(RELAY.port or 0, client_port=50_002, now_ns=T0 + hours * 3_600 * _SECOND).open()
    for number in range(4):
        second.say("c2s", _frame(tny.LinkPing(), number))
    late = second.packets.pop(4)
    second.packets.append(replace(late, ts_ns=second.now_ns + 1))
    parts = [first.packets, second.packets]
    parts = [[*first.packets, *second.packets]] if joined else parts
    files = [write(tmp_path / f"{number}.pcap", part) for number, part in enumerate(parts)]
    wanted = reference_rows(files, [])
    assert wanted["faults"] == {}
    assert unlike(columnar_rows(files, []), wanted) == []
    assert unlike(columnar_rows(files, [], 100), wanted) == []
