"""SIGTERM: no new connections, calls under way are answered, goodbyes are said."""

from __future__ import annotations

import signal
import struct
from pathlib import Path

import pytest
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw import raw_magline as magline
from tests.hub_raw.hub_process import HubProcess, wait_until
from tests.hub_raw.raw_comet import RawComet
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_magline import RawMagline
from tests.hub_raw.raw_tny import RawTny


def _is_refused(hub: HubProcess) -> bool:
    try:
        hub.dial("comet").close()
    except ConnectionRefusedError:
        return True
    return False


def test_drain(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path)
    hub.start()
    try:
        _drain(hub)
    finally:
        hub.kill()


def _drain(hub: HubProcess) -> None:
    name, token = hub.client()
    caller = RawEsnp(hub.dial("esnp"))
    caller.call("hub", "auth", {"id": name, "token": token})
    game = RawTny(hub.dial("tny"))
    game.ask(10, id=name, token=token)
    phone = RawComet(hub.dial("comet"))
    phone.auth(*hub.client())
    line = RawMagline(hub.dial("magline"))
    line.hello()
    line.ask(10, id=name, token=token)
    caller.send(esnp.call_rows(77, "test", "sleep", {"ms": 1_000}))
    asked = game.request(1003, b'{"ms": 1000}')
    wait_until(lambda: hub.varz()["calls_running"] == 2, "both calls are under way")
    hub.tell(signal.SIGTERM)
    wait_until(lambda: _is_refused(hub), "nobody new is taken")
    assert caller.answer(77).data == {"ms": 1_000}
    assert game.answer(asked).code == 100
    assert caller.line.rest() == b""
    assert game.line.rest() == b""
    assert phone.line.rest() == b""
    frame = line.receive()
    assert (frame.cmd, frame.body) == (magline.FIN, struct.pack(">I", 5))
    for each in (caller, game, phone, line):
        each.close()
    assert hub.stop() == 0
    assert "Traceback" not in hub.errors()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_hub_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    hub = HubProcess(tmp_path)
    hub.start()
    hub.tell(number)
    assert hub.stop() == 0
    assert "Traceback" not in hub.errors()
