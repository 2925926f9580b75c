"""A hub under traffic that is killed and started again, and what came of it."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.hub_kills.ledger import Judgement, Ledger
from tests.hub_kills.publishers import EsnpPublisher, HttpPublisher, Publisher
from tests.hub_kills.receivers import (
    AckingEsnp,
    OfflineComet,
    OnlineComet,
    Receiver,
    SealedComet,
    VisitingComet,
)
from tests.hub_raw.hub_process import HubProcess, wait_until

__all__ = ["run_with_kills"]

_TOPICS = ["@all", "@some"]
_LIMITS = {"limits": {"inbox": 1_000_000}}
"""Nothing may become a dead letter here: then it would be missing for a good reason."""


def run_with_kills(folder: Path, kills: int, seed: int) -> Judgement:
    """Kills the hub so many times at moments that the seed chooses."""
    hub = HubProcess(folder, _LIMITS)
    hub.start()
    try:
        return _run(hub, kills, random.Random(seed))
    finally:
        hub.kill()


def _run(hub: HubProcess, kills: int, moments: random.Random) -> Judgement:
    ledger = Ledger()
    receivers = _receivers(hub, ledger)
    for receiver in receivers:
        both = isinstance(receiver, OfflineComet | AckingEsnp)
        receiver.start(*(_TOPICS if both else _TOPICS[:1]))
    publishers = _publishers(hub, ledger, [receiver.name for receiver in receivers])
    for publisher in publishers:
        publisher.start()
    for _ in range(kills):
        before = ledger.confirmations
        wait_until(lambda before=before: ledger.confirmations > before, "something is confirmed")
        time.sleep(moments.uniform(0.0, 0.5))  # the moment of the kill is what is tried out
        hub.kill()
        hub.start()
    before = ledger.confirmations
    wait_until(lambda: ledger.confirmations > before, "it goes on after the last kill")
    for publisher in publishers:
        publisher.finish()
    for receiver in receivers:
        receiver.finish()
    broken = [repr(each.failure) for each in (*publishers, *receivers) if each.failure is not None]
    judgement = ledger.judge()
    return judgement._replace(problems=judgement.problems + broken)


def _receivers(hub: HubProcess, ledger: Ledger) -> list[Receiver]:
    kinds = [OnlineComet, OnlineComet, SealedComet, OfflineComet, OfflineComet]
    kinds += [VisitingComet, VisitingComet, AckingEsnp]
    return [
        kind(hub, ledger, f"{kind.__name__.lower()}-{number}", number)
        for number, kind in enumerate(kinds)
    ]


def _publishers(hub: HubProcess, ledger: Ledger, clients: list[str]) -> list[Publisher]:
    esnp = EsnpPublisher(hub, ledger, "keyed-esnp", _TOPICS, clients)
    esnp.token = hub.client(esnp.name)[1]
    return [
        HttpPublisher(hub, ledger, "keyed-http", _TOPICS, clients),
        HttpPublisher(hub, ledger, "plain-http", _TOPICS, clients),
        esnp,
    ]
