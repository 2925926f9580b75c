"""A full disk: publishes are refused, no confirmed publish is lost, and no restart is
needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adversity.full_disk import HubOnSmallDisk
from tests.hub_raw.hub_process import wait_until
from tests.hub_raw.raw_comet import RawComet
from tests.hub_raw.raw_esnp import EsnpError, RawEsnp

_CONTENT = "x" * 12_000


def _publish(hub: HubOnSmallDisk, name: str, number: int) -> tuple[int, str]:
    wanted = {"client": name, "content": f"{number} {_CONTENT}"}
    answer = hub.http("POST", "/v1/publish", wanted)
    return answer.status, answer.json.get("id", answer.json.get("error"))


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    hub = HubOnSmallDisk(tmp_path, "phone", "caller")
    hub.start()
    try:
        _fill_and_clear(hub)
        assert "Traceback" not in hub.errors()
    finally:
        hub.kill()


def _fill_and_clear(hub: HubOnSmallDisk) -> None:
    name, token = hub.client("phone")
    caller = RawEsnp(hub.dial("esnp"))
    caller.call("hub", "auth", dict(zip(("id", "token"), hub.client("caller"), strict=True)))
    confirmed = [_publish(hub, name, number)[1] for number in range(20)]
    hub.fill()
    number = len(confirmed)

    def refused() -> bool:
        nonlocal number
        number += 1
        status, answer = _publish(hub, name, number)
        if status == 200:
            confirmed.append(answer)
            return False
        assert (status, answer) in {(507, "storage_full"), (503, "storage_failed")}
        assert status == 507 or not hub.own_disk
        return True

    wait_until(refused, "a publish is refused")
    with pytest.raises(EsnpError):
        caller.call("hub", "publish", {"client": name, "content": _CONTENT})
    assert caller.call("test", "add", {"a": 1, "b": 2}) == {"c": 3}  # what needs no disk goes on
    assert hub.http("GET", "/healthz").status == 200
    answer = hub.http("GET", "/readyz")
    assert (answer.status, answer.json["error"]) == (503, "storage_failed")
    for _ in range(50):
        refused()
    assert hub.varz()["store_failures"]["write"] > 50
    assert hub.errors().count("cannot write the store") < 5
    hub.clear()
    wait_until(lambda: hub.http("GET", "/readyz").status == 200, "the store is written again")
    wait_until(lambda: not refused(), "publishes are taken again")
    confirmed.append(caller.call("hub", "publish", {"client": name, "content": "last"})["id"])
    caller.close()
    assert _fetched(hub, name, token) == confirmed


def _fetched(hub: HubOnSmallDisk, name: str, token: str) -> list[str]:
    client = RawComet(hub.dial("comet"))
    client.auth(name, token)
    got = []
    while page := client.messages():
        got += [note.id for note in page]
        client.ack(*(note.id for note in page))
    client.close()
    return got
