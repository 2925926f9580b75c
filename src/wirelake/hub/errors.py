"""The hub's error codes, with their HTTP status and meaning.

A `HubError` is the answer to a call, not a fault of the hub: the caller gets it in the form of the
protocol of the call. What a protocol sends for a code is in its binding
(`wirelake.protocols.binding.Binding.errors`). `text` is for people; `code` is stable.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["ERRORS", "ErrorCode", "HubError"]


class ErrorCode(NamedTuple):
    """The HTTP status of an error code, and what it means."""

    http: int
    meaning: str


ERRORS: Final[dict[str, ErrorCode]] = {
    "auth_required": ErrorCode(401, "sign on first"),
    "auth_failed": ErrorCode(401, "the id or the token is wrong"),
    "bad_arguments": ErrorCode(400, "an argument is missing, unknown or of a wrong type"),
    "not_found": ErrorCode(404, "no such service, client or notification"),
    "conflict": ErrorCode(409, "the id was used for another notification"),
    "forbidden": ErrorCode(403, "this client may not do that"),
    "too_large": ErrorCode(413, "the content does not fit the frames of its receivers"),
    "too_busy": ErrorCode(429, "a limit is reached; try again later"),
    "storage_full": ErrorCode(507, "the disk is full: nothing was stored"),
    "storage_failed": ErrorCode(503, "the store cannot be read or written: nothing was stored"),
    "unavailable": ErrorCode(503, "no process offers the service now: nothing was called"),
    "lost": ErrorCode(502, "the process was lost during the call: it may have run"),
    "timeout": ErrorCode(504, "the service did not answer in time"),
    "closing": ErrorCode(503, "the hub is shutting down"),
    "failed": ErrorCode(500, "the service reports a failure"),
    "internal": ErrorCode(500, "the service raised an exception; see the hub's log"),
}
"""Every error code."""


class HubError(Exception):
    """An error with a code of `ERRORS`."""

    # Deliberately the answer of a call, returned as often as raised: callbacks get it as a value.

    def __init__(self, code: str, text: str = ""):
        super().__init__(code, text)
        self.code = code
        self.text = text or ERRORS[code].meaning

    def __str__(self) -> str:
        return self.text
