"""Answers of the hub to requests that are taken while they are read: known at once, or later."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import HubError
from .call_types import Result

__all__ = ["DeferredReply"]


class DeferredReply:
    """One such answer. The hub calls `take`; whoever asked looks whether it is `known`."""

    __slots__ = ("_answer_later", "known", "late", "outcome")

    def __init__(self, answer_later: Callable[[Result | HubError], None]):
        self._answer_later = answer_later
        self.known = False
        """Whether the outcome is there already."""
        self.late = False
        """Whether the one who asked has gone on: what comes now has to be sent."""
        self.outcome: Result | HubError = None

    def take(self, outcome: Result | HubError) -> None:
        """What the hub answers."""
        if self.late:
            self._answer_later(outcome)
        else:
            self.outcome, self.known = outcome, True
