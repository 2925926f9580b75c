"""What the hub refuses, and how each protocol says it: one row for each code.

A `HubError` is an answer, not an accident: whoever asked is told, in the form of the protocol that
the question came by. `text` is for people; `code` is stable.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ANSWERS", "Answer", "HubError"]


class Answer(NamedTuple):
    """How one refusal is said: comet error code, tny result code, magline error number, HTTP
    status; and what it means."""

    comet: int
    tny: int
    magline: int
    http: int
    meaning: str


ANSWERS: Final[dict[str, Answer]] = {
    "auth_required": Answer(5, 210, 13, 401, "nothing but signing on is allowed before it"),
    "auth_failed": Answer(0, 210, 13, 401, "the id or the token is wrong"),
    "bad_arguments": Answer(4, 500, 15, 400, "an argument is missing, unknown or of a wrong type"),
    "not_found": Answer(4, 205, 14, 404, "there is no such service, client or notification"),
    "forbidden": Answer(4, 500, 15, 403, "this client may not do that"),
    "too_large": Answer(4, 500, 5, 413, "the content does not fit the frames of its receivers"),
    "too_busy": Answer(6, 500, 11, 429, "a limit is reached; try again later"),
    "storage_full": Answer(6, 500, 11, 507, "the disk is full: nothing was stored"),
    "storage_failed": Answer(3, 500, 16, 503, "the store cannot be written: nothing was stored"),
    "closing": Answer(6, 500, 11, 503, "the hub is going down"),
    "failed": Answer(3, 500, 15, 500, "the service says that it failed"),
    "internal": Answer(3, 500, 16, 500, "the service broke; the hub's log says how"),
}
"""Every refusal. comet's numbers are those of its document and of rule 22."""


class HubError(Exception):
    """A refusal with a code of `ANSWERS`."""

    def __init__(self, code: str, text: str = ""):
        super().__init__(code, text)
        self.code = code
        self.text = text or ANSWERS[code].meaning

    @property
    def answer(self) -> Answer:
        """How each protocol says it."""
        return ANSWERS[self.code]

    def __str__(self) -> str:
        return self.text
