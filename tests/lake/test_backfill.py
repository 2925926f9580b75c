"""Captures of several days that are all there: steps of any size give the rows of one read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.capture.tcp_made import Call, Made, write
from tests.lake.cut_captures import age
from tests.lake.lakes import unlike_engines
from tests.lake.local_engine import run_here

from wirelake.lake.verify.verify import verify
from wirelake.protocols.comet.layout import Auth, Heartbeat, MessageAck, Notification, Ok
from wirelake.protocols.comet.protocol import PROTOCOL

_PORT = PROTOCOL.port or 0
_HOUR_NS = 3_600_000_000_000
_T0 = 1_700_000_000_000_000_000


def _phone(port: int, at_ns: int) -> Call:
    call = Call(_PORT, client_port=port, now_ns=at_ns).open()
    call.say("c2s", PROTOCOL.encode(Auth(client_id="ann", token="t")))
    return call.say("s2c", PROTOCOL.encode(Ok()))


def _beats(port: int, at_ns: int) -> list[Made]:
    """Traffic of another client, so that the source gets on."""
    call = Call(_PORT, client_port=port, now_ns=at_ns).open()
    for _ in range(40):
        call.say("c2s", PROTOCOL.encode(Heartbeat()))
        call.say("s2c", PROTOCOL.encode(Ok()))
    return call.packets


def _captures(folder: Path) -> list[Path]:
    """Two taps: `a` sees a notification, `b` its acknowledgement; `a` has three days."""
    note = Notification(msg_type=1, msg_id="n-1", content=b"x", ts=_T0 // 1_000_000)
    sent = _phone(50_001, _T0).say("s2c", PROTOCOL.encode(note))
    acked = _phone(50_002, _T0 + _HOUR_NS)
    acked.say("c2s", PROTOCOL.encode(MessageAck(msg_ids=["n-1"])))
    folder.mkdir()
    found = [write(folder / "a-00000001.pcap", sent.packets)]
    for day in (1, 2, 3):
        beats = _beats(50_010 + day, _T0 + day * 24 * _HOUR_NS)
        found.append(write(folder / f"a-{day + 1:08}.pcap", beats))
    later = _beats(50_020, _T0 + 70 * _HOUR_NS)
    found.append(write(folder / "b-00000001.pcap", [*acked.packets, *later]))
    # Copied, the files of tap `a` first: their modification times say nothing.
    for number, path in enumerate(found):
        age(path, 1_000 - number)
    return found


@pytest.mark.parametrize("max_files", [1, 2, None])
def test_a_backfill_in_any_steps(tmp_path: Path, max_files: int | None) -> None:
    files = _captures(tmp_path / "in")
    outcome = run_here(tmp_path / "lake", tmp_path / "in", max_files=max_files)
    assert outcome.waiting == []
    assert unlike_engines(tmp_path / "lake", files, tables=("deliveries", "connections")) == []
    assert verify(tmp_path / "lake", shares=1).findings() == []


def test_verify_reports_what_was_settled_too_early(tmp_path: Path) -> None:
    first, *rest = sorted(_captures(tmp_path / "all"))
    assert first.name.startswith("a-")
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b"):  # the other tap comes three days late
        for path in (first, *rest):
            if path.name.startswith(name):
                age(path.rename(folder / path.name), 1_000)
        run_here(tmp_path / "lake", folder)
    found = verify(tmp_path / "lake", shares=1).findings()
    assert any("deliveries" in each and "one row" in each for each in found)
