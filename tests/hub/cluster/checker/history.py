"""What happened in a round, as events in the order in which they were noted.

An event is a dict with `t`, the seconds since the start, and `e`, its kind:

    asks        client, topics        a client is about to subscribe
    subscribed  client, topics        that was confirmed
    send        content, topic or to  a publish is about to be sent
    confirm     content, id           it was confirmed
    fail        content, error        nobody knows what became of it
    dial        client, visit, url    a client is about to connect
    lost        client, visit, error  its connection has ended
    deliver     client, visit, id, content
    ack         client, visit, id     an acknowledgement is about to be sent
    acked       client, visit, id     it was answered, where the protocol answers
    stored      client, cursor, spans, holes, by, holder, valid
                                      an inbox was found in the database: written by the process
                                      `by` while `holder` had the claim, with a `valid` lease
    fault       hub, what             a fault begins or ends
    end                               everybody had time to get everything

Calls of services will be further kinds.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Event", "History", "read"]

Event: TypeAlias = dict[str, Any]


class History:
    """Events of one round."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._began = time.monotonic()
        self._wanted: dict[str, set[str]] = {}
        self._got: dict[str, set[str]] = {}
        self._sent: dict[str, Event] = {}
        self._topics: dict[str, dict[str, int]] = {}

    def add(self, kind: str, **values: Any) -> None:
        """Note an event."""
        event = {"t": round(time.monotonic() - self._began, 4), "e": kind, **values}
        self.events.append(event)
        if kind == "subscribed":
            known = self._topics.setdefault(event["client"], {})
            for topic in event["topics"]:
                known.setdefault(topic, len(self.events))
        elif kind == "send":
            self._sent[event["content"]] = {**event, "at": len(self.events)}
        elif kind == "confirm":
            self._want(event["content"])
        elif kind == "deliver":
            self._got.setdefault(event["client"], set()).add(event["content"])

    def _want(self, content: str) -> None:
        sent = self._sent[content]
        if sent["to"]:
            self._wanted.setdefault(sent["to"], set()).add(content)
            return
        for client, topics in self._topics.items():
            if topics.get(sent["topic"], len(self.events)) < sent["at"]:
                self._wanted.setdefault(client, set()).add(content)

    def missing(self, client: str) -> set[str]:
        """Return what a client has not got yet of what was confirmed."""
        return self._wanted.get(client, set()) - self._got.get(client, set())

    def write(self, path: Path) -> None:
        """Write the events as lines of JSON."""
        with path.open("w") as file:
            for event in self.events:
                file.write(json.dumps(event) + "\n")


def read(path: Path) -> list[Event]:
    """Read the events of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]
