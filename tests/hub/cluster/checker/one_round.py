"""One round: three hubs and a database under faults that a seed chooses, then peace, then a check.

A slow database transaction may appear in the audit later than one that began after it, so rows are
read in the order of their places only; inboxes of one client are locked by their claims.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tests.hub.cluster.checker.audit import Audit
from tests.hub.cluster.checker.clients import CALLING, PROTOCOLS, Publisher, Subscriber
from tests.hub.cluster.checker.history import History
from tests.hub.cluster.checker.nodes import Node, harm, harm_database
from tests.hub.cluster.checker.properties import Violation, violations
from tests.postgres_server import Server

from wirelake.hub.store import add_client

__all__ = ["Outcome", "run_round"]

_HUBS = 3
_EACH = 2
"""Subscribers of each protocol."""
_PEACE_S = 25.0
"""How long everybody may need to get what is missing: leases end, hubs connect again."""


class Outcome(NamedTuple):
    """What came of a round."""

    seed: int
    counts: dict[str, int]
    violations: list[Violation]


def run_round(folder: Path, server: Server, seed: int, seconds: float) -> Outcome:
    """Run a round; its history is in the folder, as `history.jsonl`."""
    history = History()
    database = server.new_database("prepared")
    url = server.url(database)
    try:
        asyncio.run(_run(folder, server, database, url, history, seed, seconds))
    finally:
        history.write(folder / "history.jsonl")
    server.drop_database(database)
    counts = Counter(event["e"] for event in history.events)
    return Outcome(seed, dict(counts), violations(history.events))


async def _run(
    folder: Path,
    server: Server,
    database: str,
    url: str,
    history: History,
    seed: int,
    seconds: float,
) -> None:
    choose = random.Random(seed)
    nodes = [
        Node(folder / f"hub{each}", each, database, server, history, choose.getrandbits(32))
        for each in range(1, _HUBS + 1)
    ]
    try:
        await asyncio.gather(*(each.start_again() for each in nodes))
        audit = Audit(url, history)

        def made(kind: Any, name: str, protocol: str) -> Any:
            token = add_client(url, name)
            return kind(name, protocol, token, nodes, history, choose.getrandbits(32))

        subscribers = [
            made(Subscriber, f"{protocol}-{each}", protocol)
            for protocol in PROTOCOLS
            for each in range(_EACH)
        ]
        publishers = [made(Publisher, f"from-{protocol}", protocol) for protocol in CALLING]
        await asyncio.gather(*(each.subscribe() for each in subscribers))
        names = [each.name for each in subscribers]
        tasks = [asyncio.create_task(each.run()) for each in subscribers]
        publishing = [asyncio.create_task(each.run(names)) for each in publishers]
        reading = asyncio.create_task(audit.run())
        until = asyncio.get_running_loop().time() + seconds
        faults = [harm(each, until) for each in nodes]
        faults.append(harm_database(server, history, choose, until))
        try:
            await asyncio.gather(*faults)
            history.add("fault", hub=0, what="peace")
            for publisher in publishers:
                publisher.over = True
            await asyncio.wait(publishing, timeout=_PEACE_S)
            for subscriber in subscribers:
                subscriber.over = True
            await asyncio.wait(tasks, timeout=_PEACE_S)
            await asyncio.sleep(0.3)  # the last acknowledgements are saved
        finally:
            for task in (*tasks, *publishing, reading):
                task.cancel()
            ended = await asyncio.gather(*tasks, *publishing, reading, return_exceptions=True)
        await audit.read_rest()
        history.add("end")
        for error in ended:
            if isinstance(error, Exception):
                raise error
        for each in nodes:
            each.stop()
    finally:
        for each in nodes:
            each.kill()
            each.link.stop()
