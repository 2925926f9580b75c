"""Values that a client returns: results of calls, notifications, results of publishes."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Notification", "Published", "Result"]


class Result:
    """The result of a call."""

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
        """The decoded message, for what is not in body and data."""
        self.traces = traces
        """Trace reports of the call (ESNP, `trace=True`)."""
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
    """A notification."""

    id: str
    """What to acknowledge."""
    content: bytes
    """What was published."""
    ts_ms: int = 0
    """When, in milliseconds since 1970."""
    topic: str | None = None
    """Its topic; None when it is for this client alone, and with comet, which does not send it."""
    type: int = 0
    """The publisher's own number."""

    @property
    def text(self) -> str:
        """The content as text; bytes that are not valid UTF-8 are escaped."""
        return self.content.decode("utf-8", "backslashreplace")


class Published(msgspec.Struct, frozen=True, gc=False):
    """The result of a publish."""

    id: str
    """The notification's id."""
    audience: int
    """The number of clients that it is for."""
