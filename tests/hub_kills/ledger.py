"""What was tried, what was confirmed, and what arrived: the truth that a run is judged by."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import NamedTuple

__all__ = ["Judgement", "Ledger", "Piece", "place_of"]


class Piece(NamedTuple):
    """One thing to publish: who publishes it, which one it is, and for whom."""

    publisher: str
    number: int
    topic: str = ""
    client: str = ""

    @property
    def content(self) -> str:
        """Tells pieces apart wherever they arrive."""
        return f"{self.publisher} {self.number} {self.topic}{self.client}"


def place_of(id: str) -> tuple[str, str]:  # noqa: A002 - the protocols' own word
    """What ids are ordered by: seconds, then the counter (comet rules, section 2)."""
    return id[8:], id[3:8]


class Judgement(NamedTuple):
    """How a run went."""

    tried: int
    confirmed: int
    delivered: int
    repeated: int
    problems: list[str]


class Ledger:
    """Threads write into it; it is judged at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tried: dict[str, Piece] = {}
        self._confirmed: dict[str, str] = {}
        self._arrived: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._topics: dict[str, set[str]] = {}
        self._died: dict[str, set[str]] = defaultdict(set)

    def subscribed(self, client: str, *topics: str) -> None:
        """This client must get everything of these topics from now on."""
        with self._lock:
            self._topics[client] = set(topics)

    def trying(self, piece: Piece) -> None:
        """About to be published."""
        with self._lock:
            self._tried[piece.content] = piece

    def confirmed(self, piece: Piece, id: str) -> None:  # noqa: A002
        """The hub says that it has it."""
        with self._lock:
            self._confirmed[piece.content] = id

    def arrived(self, client: str, id: str, content: str) -> None:  # noqa: A002
        """A client got something."""
        with self._lock:
            self._arrived[client].append((id, content))

    def died(self, client: str, contents: set[str]) -> None:
        """These are dead letters of a client: it need not get them."""
        with self._lock:
            self._died[client] |= contents

    @property
    def confirmations(self) -> int:
        """How many so far."""
        with self._lock:
            return len(self._confirmed)

    def missing(self, client: str) -> set[str]:
        """Confirmed contents that this client should have and does not."""
        with self._lock:
            got = {content for _, content in self._arrived[client]} | self._died[client]
            return {content for content in self._confirmed if self._for(client, content)} - got

    def _for(self, client: str, content: str) -> bool:
        piece = self._tried[content]
        return piece.client == client or piece.topic in self._topics[client]

    def judge(self) -> Judgement:
        """Looks for what is lost, invented, twofold or out of order."""
        problems = []
        for client in self._topics:
            problems += [f"{client} never got {content!r}" for content in self.missing(client)]
            problems += self._invented(client)
            problems += self._out_of_order(client)
        arrived = sum(len(rows) for rows in self._arrived.values())
        distinct = sum(len(set(rows)) for rows in self._arrived.values())
        return Judgement(
            len(self._tried), len(self._confirmed), distinct, arrived - distinct, problems
        )

    def _invented(self, client: str) -> list[str]:
        problems = []
        for id, content in set(self._arrived[client]):  # noqa: A001
            if content not in self._tried:
                problems.append(f"{client} got {content!r}, which nobody published")
            elif not self._for(client, content):
                problems.append(f"{client} got {content!r}, which is for others")
            elif self._confirmed.get(content, id) != id:
                problems.append(f"{client} got {content!r} as {id}, not as it was confirmed")
        ids = Counter(content for _, content in set(self._arrived[client]))
        keyed = [content for content in ids if content.startswith("keyed")]
        problems += [f"{content!r} has {ids[content]} ids" for content in keyed if ids[content] > 1]
        return problems

    def _out_of_order(self, client: str) -> list[str]:
        """First deliveries only: what comes again may come late."""
        firsts = list(dict.fromkeys(self._arrived[client]))
        places = [place_of(each[0]) for each in firsts]
        if places != sorted(places):
            at = next(n for n in range(1, len(places)) if places[n] < places[n - 1])
            return [f"{client} got {firsts[at]} after {firsts[at - 1]}"]
        numbers: dict[str, int] = {}
        for _, content in firsts:
            piece = self._tried.get(content)
            if piece is None:
                continue
            if piece.number < numbers.get(piece.publisher, -1):
                return [f"{client} got {content!r} after number {numbers[piece.publisher]}"]
            numbers[piece.publisher] = piece.number
        return []
