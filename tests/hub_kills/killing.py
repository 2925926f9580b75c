"""A hub under traffic that is killed and started again, and what came of it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from tests.hub import stores
from tests.hub_kills.ledger import Judgement, Ledger
from tests.hub_kills.publishers import BusyPublisher, EsnpPublisher, HttpPublisher, Publisher
from tests.hub_kills.receivers import (
    AckingEsnp,
    OfflineComet,
    OnlineComet,
    Receiver,
    SealedComet,
    VisitingComet,
)
from tests.hub_raw.hub_process import HubProcess, wait_until
from tests.postgres_server import started_server

__all__ = ["run_sweep_with_kills", "run_with_crashes", "run_with_kills"]

_TOPICS = ["@all", "@some"]
_LIMITS = {"limits": {"inbox": 1_000_000}}
"""Nothing may become a dead letter here: then it would be missing for a good reason."""


def run_with_kills(folder: Path, kills: int, seed: int) -> Judgement:
    """Kills the hub so many times at moments that the seed chooses."""
    return _with_hub(folder, kills, seed, _kill_hub)


def run_with_crashes(folder: Path, kills: int, seed: int) -> Judgement:
    """Kills the PostgreSQL server of the hub so many times, half of them together with the hub."""
    with started_server(safe=True) as server:

        def crash(hub: HubProcess, moments: random.Random) -> None:
            server.stop(signal.SIGKILL)
            together = moments.random() < 0.5
            if together:
                hub.kill()
            server.start()
            if together:
                hub.start()

        with stores.used("postgres", server):
            return _with_hub(folder, kills, seed, crash)


def _kill_hub(hub: HubProcess, moments: random.Random) -> None:  # noqa: ARG001
    hub.kill()
    hub.start()


_Kill: TypeAlias = Callable[[HubProcess, random.Random], None]


def _with_hub(folder: Path, kills: int, seed: int, kill: _Kill) -> Judgement:
    hub = HubProcess(folder, _LIMITS)
    hub.store_may_fail = kill is not _kill_hub
    hub.start()
    try:
        return _run(hub, kills, random.Random(seed), kill)
    finally:
        hub.kill()


def _run(hub: HubProcess, kills: int, moments: random.Random, kill: _Kill) -> Judgement:
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
        kill(hub, moments)
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


# -- the sweep under load ------------------------------------------------------------------------

_INBOX = 300
_MOST_STORED = 30_000
"""Rows that may wait to be deleted: a few seconds of publishing."""


def run_sweep_with_kills(folder: Path, kills: int, seed: int) -> Judgement:
    """Kills a hub that stores, trims and deletes as fast as it can.

    Whatever was confirmed arrives, or is a dead letter; no backlog ever exceeds its limit; and in
    the end the log has only what waits.
    """
    hub = HubProcess(folder, {"limits": {"inbox": _INBOX, "in_flight": 100}})
    hub.start()
    try:
        return _sweep(hub, kills, random.Random(seed))
    finally:
        hub.kill()


def _sweep(hub: HubProcess, kills: int, moments: random.Random) -> Judgement:
    ledger = Ledger()
    receivers: list[Receiver] = [
        OnlineComet(hub, ledger, "online"),
        AckingEsnp(hub, ledger, "acking"),
        OfflineComet(hub, ledger, "offline"),
    ]
    for receiver in receivers:
        receiver.start(*_TOPICS)
    publisher = BusyPublisher(hub, ledger, "busy", _TOPICS, [])
    publisher.token = hub.client(publisher.name)[1]
    publisher.start()
    problems: list[str] = []
    for _ in range(kills):
        before = ledger.confirmations
        wait_until(lambda before=before: ledger.confirmations > before + 1_000, "much is confirmed")
        until = time.monotonic() + moments.uniform(0.3, 1.2)
        while time.monotonic() < until:
            problems += _too_long(hub)
        hub.kill()
        hub.start()
        problems += _too_long(hub)  # not even after a crash
    publisher.finish()
    wait_until(lambda: _log_rows(hub) <= len(receivers) * _INBOX, "what nobody needs is deleted")
    wait_until(lambda: _none_missing(hub, ledger, receivers[:2]), "all arrived, or are dead")
    for receiver in receivers:
        receiver.finish()
    broken = [repr(each.failure) for each in (publisher, *receivers) if each.failure is not None]
    judgement = ledger.judge()
    return judgement._replace(problems=problems + judgement.problems + broken)


def _too_long(hub: HubProcess) -> list[str]:
    rows = hub.http("GET", "/clientz").json["clients"]
    found = [f"{row['id']} has {row['waiting']}" for row in rows if row["waiting"] > _INBOX]
    stored = sum(row["stored"] for row in hub.http("GET", "/topicz").json["topics"])
    return [*found, *([f"{stored} rows are stored"] if stored > _MOST_STORED else [])]


def _log_rows(hub: HubProcess) -> int:
    return int(stores.select(hub.data, "SELECT count(*) FROM log")[0][0])


def _none_missing(hub: HubProcess, ledger: Ledger, receivers: list[Receiver]) -> bool:
    rows = stores.select(
        hub.data,
        "SELECT clients.id, content FROM dead JOIN dead_log USING (number) "
        "JOIN clients ON clients.number = dead.client",
    )
    dead: dict[str, set[str]] = {}
    for client, content in rows:
        dead.setdefault(client, set()).add(content.decode())
    for client, contents in dead.items():
        ledger.died(client, contents)
    return not any(ledger.missing(each.name) for each in receivers)
