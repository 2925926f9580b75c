"""What a client gives back: results of calls, notifications, what became of a publish."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Notification", "Published", "Result"]


class Result:
    """The answer to a call."""

    __slots__ = ("_data", "_in_body", "body", "message", "traces")

    def __init__(
        self,
        body: bytes = b"",
        data: dict[str, Any] | None = None,
        *,
        message: Any = None,
        traces: tuple[str, ...] = (),
    ):
        self.body = body
        """The bytes: a tny or magline body, the PAYLOAD rows of an ESNP message."""
        self.message = message
        """The message as its protocol has it, for what is not in body and data."""
        self.traces = traces
        """Who reported that the call passed by (ESNP, `trace=True`)."""
        self._data = data
        self._in_body = data is None

    @property
    def data(self) -> dict[str, Any]:
        """The values by name: DATA rows of ESNP, else the body as a JSON object; {} if it is
        none."""
        if self._data is None:
            try:
                decoded = msgspec.json.decode(self.body)
            except msgspec.DecodeError:
                decoded = None
            self._data = decoded if isinstance(decoded, dict) else {}
        return self._data

    @property
    def beside(self) -> bytes:
        """The bytes beside the values: none, where the values were read from the body."""
        return b"" if self._in_body and self.data else self.body

    def __repr__(self) -> str:
        return f"Result(data={self.data!r}, body={len(self.body)} bytes)"


class Notification(msgspec.Struct, frozen=True, gc=False):
    """Something that was published."""

    id: str
    """What to acknowledge."""
    content: bytes
    """What was published."""
    ts_ms: int = 0
    """When, in milliseconds since 1970."""
    topic: str | None = None
    """By which topic it came; None for one that is meant for this client alone, and for comet,
    which does not tell."""
    type: int = 0
    """The publisher's own number."""

    @property
    def text(self) -> str:
        """The content as text; bytes that are no UTF-8 are shown as escapes."""
        return self.content.decode("utf-8", "backslashreplace")


class Published(msgspec.Struct, frozen=True, gc=False):
    """What became of a publish."""

    id: str
    """The notification's id."""
    audience: int
    """How many clients it is for."""
