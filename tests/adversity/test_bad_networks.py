"""With a proxy that delays, splits, stalls and cuts, no confirmed publish is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.adversity.proxy import FAIR, Conditions, Proxy
from tests.hub_kills.ledger import Ledger
from tests.hub_kills.publishers import EsnpPublisher, HttpPublisher
from tests.hub_kills.receivers import AckingEsnp, OnlineComet, SealedComet, VisitingComet
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw.hub_process import HubProcess, running_hub, wait_until
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_magline import RawMagline
from tests.hub_raw.raw_tny import RawTny

_LISTENERS = ("comet", "esnp", "admin", "tny", "magline")
_SPLITTING = Conditions(delay_s=0.001, pieces=7)


class FarHub(HubProcess):
    """A hub that is reachable only through proxies."""

    def __init__(self, hub: HubProcess, conditions: Conditions):
        self.data = hub.data
        self._clients = 0
        self.proxies = {
            listener: Proxy(lambda listener=listener: hub.addresses[listener], conditions, number)
            for number, listener in enumerate(_LISTENERS)
        }
        self.addresses = {listener: proxy.address for listener, proxy in self.proxies.items()}

    def begin(self, conditions: Conditions) -> None:
        """Set the conditions of new connections; existing ones keep their remaining bytes."""
        for proxy in self.proxies.values():
            proxy.conditions = conditions

    def bad(self, conditions: Conditions) -> bool:
        """Return whether the faults of these conditions have occurred often enough."""
        cut = not conditions.cut_after or self.total("cuts") > 10
        return cut and (not conditions.stall or self.total("stalls") > 10)

    def total(self, name: str) -> int:
        """Return a counter summed over all proxies."""
        return sum(getattr(proxy, name) for proxy in self.proxies.values())


@contextmanager
def _far_hub(folder: Path, conditions: Conditions) -> Iterator[FarHub]:
    with running_hub(folder) as hub:
        far = FarHub(hub, conditions)
        try:
            yield far
        finally:
            for proxy in far.proxies.values():
                proxy.stop()


_STORMY = {
    "delayed and split": Conditions(delay_s=0.004, pieces=50),
    "stalling": Conditions(stall=0.05, stall_s=0.3),
    "cut": Conditions(cut_after=4_000),
    "all of it": Conditions(delay_s=0.002, pieces=200, stall=0.01, stall_s=0.2, cut_after=5_000),
}


@pytest.mark.parametrize("conditions", _STORMY)
def test_nothing_confirmed_is_lost(tmp_path: Path, conditions: str) -> None:
    with _far_hub(tmp_path, FAIR) as hub:
        ledger = Ledger()
        kinds = [OnlineComet, SealedComet, VisitingComet, AckingEsnp]
        receivers = [kind(hub, ledger, kind.__name__) for kind in kinds]
        for receiver in receivers:
            receiver.start("@all")
        hub.begin(_STORMY[conditions])
        names = [receiver.name for receiver in receivers]
        keyed = EsnpPublisher(hub, ledger, "keyed-esnp", ["@all"], names)
        keyed.token = hub.client(keyed.name)[1]
        publishers = [keyed, HttpPublisher(hub, ledger, "keyed-http", ["@all"], names)]
        for publisher in publishers:
            publisher.start()
        wait_until(lambda: ledger.confirmations > 60, "some are confirmed", 60)
        wait_until(lambda: hub.bad(_STORMY[conditions]), "the conditions is bad", 60)
        for publisher in publishers:
            publisher.finish()
        hub.begin(FAIR)
        for receiver in receivers:
            receiver.finish()
        judgement = ledger.judge()
        assert judgement.problems == []
        assert [each.failure for each in (*publishers, *receivers)] == [None] * 6


def test_every_protocol_in_small_pieces(tmp_path: Path) -> None:
    with _far_hub(tmp_path, _SPLITTING) as hub:
        name, token = hub.client()
        caller = RawEsnp(hub.dial("esnp"))
        caller.call("hub", "auth", {"id": name, "token": token})
        rows = caller.ask("test", "echo", {"k": "v"}, (esnp.PAYLOAD, bytes(range(256)) * 4))
        assert rows.all(esnp.PAYLOAD) == [bytes(range(256)) * 4]
        game = RawTny(hub.dial("tny"))
        game.ping()
        game.ask(10, id=name, token=token)
        assert game.call(1001, b"x" * 1000) == b"x" * 1000
        line = RawMagline(hub.dial("magline"))
        line.hello()
        line.ask(10, id=name, token=token)
        assert line.call(0x1001, b"y" * 1000) == b"y" * 1000
        line.ping()
        assert hub.total("carried") > 5_000
        for client in (caller, game, line):
            client.close()
