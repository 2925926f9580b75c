"""What a soak of sessions attacks: sessions in some state, what their peer and application say.

A subject reaches its state by a real dialogue: bytes that a real peer sends, and calls that an
application makes. Limits are set low, so that inputs reach them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random

from wirelake.protocols.sansio import Event, Session

__all__ = ["Subject"]


class Subject(ABC):
    """One session, or several that share something, with all that surrounds them."""

    rude = 1.0
    """How often an input may break what a tag covers; see `Attacker`."""

    def __init__(self, rng: Random):
        self.rng = rng
        self.now = 0.0
        self.sessions: list[Session] = []

    @abstractmethod
    def frame(self, session: Session) -> bytes:
        """Something that the peer of a session may say, now or at another time."""

    @abstractmethod
    def act(self, session: Session) -> None:
        """The application does something; SessionError when it is not possible."""

    @abstractmethod
    def room(self, session: Session) -> int:
        """How many bytes of an incomplete frame a session may hold."""

    @abstractmethod
    def excess(self, session: Session) -> str:
        """Which limit of its options a session exceeds; empty when none."""

    @abstractmethod
    def busy(self, session: Session) -> bool:
        """Whether something waits to be answered."""

    def heard(self, session: Session, event: Event) -> None:  # noqa: B027 - not every subject cares
        """The application takes note of an event."""

    def wrote(self, session: Session, data: bytes) -> None:  # noqa: B027 - not every subject cares
        """The peer gets what a session has written."""

    def after(self, session: Session) -> None:  # noqa: B027 - not every subject cares
        """An input is over: the peer may look at what became of it."""

    def on_timer(self) -> None:  # noqa: B027 - not every subject cares
        """Time has passed for what the sessions share."""

    def waits(self, session: Session) -> bool:  # noqa: ARG002 - one protocol does so
        """Whether a fatal failure waits for the application before the session closes."""
        return False

    def pick(self, *chances: float) -> int:
        """An index, by chances that add up to 1; the last one takes what is left."""
        roll = self.rng.random()
        for index, chance in enumerate(chances):
            roll -= chance
            if roll < 0:
                return index
        return len(chances)
