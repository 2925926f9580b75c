"""Healthy connections, one per protocol, that other peers must not affect."""

from __future__ import annotations

from tests.hub_raw.hub_process import HubProcess
from tests.hub_raw.raw_comet import RawComet
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_magline import RawMagline
from tests.hub_raw.raw_relay import RawLink
from tests.hub_raw.raw_tny import RawTny

__all__ = ["HealthyPeers"]


class HealthyPeers:
    """Connections that sign on first and are checked later."""

    def __init__(self, hub: HubProcess):
        self._hub = hub
        self.comet = RawComet(hub.dial("comet"))
        self.comet_name, token = hub.client()
        self.comet.auth(self.comet_name, token)
        self.esnp = RawEsnp(hub.dial("esnp"))
        name, token = hub.client()
        self.esnp.call("hub", "auth", {"id": name, "token": token})
        self.tny = RawTny(hub.dial("tny"))
        self.tny.ask(10, id=name, token=token)
        self.magline = RawMagline(hub.dial("magline"))
        self.magline.hello()
        self.magline.ask(10, id=name, token=token)
        self.link = RawLink(hub.dial("relay"), 4711)
        assert self.link.open(key="healthy")
        self._asked = 0

    def check(self) -> None:
        """Assert that every connection still works."""
        self._asked += 1
        number = self._asked
        assert self.esnp.call("test", "add", {"a": number, "b": 1}) == {"c": number + 1}
        assert self.tny.ask(1002, a=number, b=1) == {"c": number + 1}
        assert self.magline.ask(0x1002, a=number, b=1) == {"c": number + 1}
        self.link.ping()
        wanted = self._hub.publish(client=self.comet_name, content=f"still here {number}")["id"]
        assert self.comet.next_push().id == wanted
        self.comet.ack(wanted)

    def leave(self) -> None:
        """Close the connections."""
        for each in (self.comet, self.esnp, self.tny, self.magline, self.link):
            each.close()
