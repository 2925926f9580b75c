"""Live traffic over HTTP: `GET /v1/tables/{table}`, and `GET /v1/tail` as server-sent events.

    event: message   a row of `messages` as JSON, secret fields masked; `masked`, without body and
                     fields, if it may hold credentials; while its connection is open also `peer`,
                     the remote address, and `signed_on`, the client
    event: dropped   {"count": n}: n messages did not fit the queue of this reader

`filter=` is an expression of the filter language (`docs/guides/filters.md`), `protocol=` the name
of a protocol. With `bytes=1` a message has its frame as `frame_hex`, secrets replaced by zeros, and
the `dialect` it is encoded in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from wirelake.records import ENGINES
from wirelake.records.exact_json import exact
from wirelake.records.filter import Filter, FilterError, compile_filter
from wirelake.records.schema import schema
from wirelake.wire.errors import unknown

from ..errors import HubError
from ..observe.live_decoder import KEPT_ROWS, LiveDecoder, LiveTables, MaskedFrame, shared_decoder
from .http import JsonResponse, hub_of, known_protocol, known_queries, number

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.table import TrackedConnection

__all__ = ["QUEUE", "TailReader", "table", "tail"]

QUEUE: Final = 1_000
"""Maximum length of the queue of one reader."""
_KEEPALIVE_S: Final = 15.0
"""Interval of comments; writing one detects that the reader has disconnected."""
_MAX_BATCH: Final = 64
"""Messages per write."""
_FILTER_LENGTH: Final = 2_000
_DEFAULT_ROWS: Final = 100
_OMITTED: Final = ("file", "offset", "frame")
"""Columns without meaning for a message that is in no file, and the frame."""


async def tail(request: Request) -> Response:
    """Stream until the reader disconnects or the hub stops."""
    known_queries(request, "filter", "protocol", "bytes")
    hub = hub_of(request)
    protocol = known_protocol(request)
    with_bytes = bool(number(request, "bytes", 0, 1))
    text = request.query_params.get("filter", "")
    chosen = _filter(text) if text.strip() else None
    if request.method == "HEAD":  # the headers, without a reader that never gets a message
        return Response(media_type=_Stream.media_type)
    readers: set[TailReader] = request.app.state.readers
    if len(readers) >= hub.limits.tail_watchers:
        raise HubError("too_busy", f"maximum of {hub.limits.tail_watchers} readers reached")
    reader = TailReader(
        chosen, protocol=protocol, with_bytes=with_bytes, connections=hub.connections
    )
    granted: Callable[[], Awaitable[bool]] = request.state.still_granted
    return _Stream(_events(hub, reader, granted), readers, reader)


class _Stream(StreamingResponse):
    """The response to a reader, which is counted until it ends."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], readers: set[TailReader], reader: TailReader):
        super().__init__(events, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        # Counted now, not when its events begin: requests that arrive together would all be
        # accepted.
        readers.add(reader)
        self._readers, self._reader = readers, reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers.discard(self._reader)


class TailReader:
    """One reader and its queue."""

    def __init__(
        self,
        chosen: Filter | None,
        *,
        protocol: str | None = None,
        with_bytes: bool = False,
        connections: Mapping[int, TrackedConnection] | None = None,
    ):
        self._filter = chosen
        self._connections = {} if connections is None else connections
        self._protocol = protocol
        self._with_bytes = with_bytes
        self._waiting: deque[bytes] = deque()
        self._dropped = 0
        self._ended = False
        self._ready = asyncio.Event()

    def message(self, row: dict[str, Any]) -> None:
        """Queue a message that matches the protocol and the filter of the reader."""
        if self._protocol is not None and row["protocol"] != self._protocol:
            return
        if self._filter is not None and not self._filter.test(row):
            return
        # A slow reader loses messages, and an event reports how many. It must not slow the hub
        # down.
        if len(self._waiting) >= QUEUE:
            self._dropped += 1
            return
        shown = exact(_shown(row)) | _end_of(self._connections.get(row["connection"]))
        if self._with_bytes:
            shown |= _bytes_of(row, masked="masked" in shown)
        self._waiting.append(_event("message", shown))
        self._ready.set()

    def end(self) -> None:
        """End the stream."""
        self._ended = True
        self._ready.set()

    async def next(self) -> bytes:
        """Return the next bytes of the stream; empty at the end."""
        while not self._waiting and not self._ended:
            self._ready.clear()
            try:
                async with asyncio.timeout(_KEEPALIVE_S):
                    await self._ready.wait()
            except TimeoutError:
                return b": keep-alive\n\n"
        # Several messages per write. The count of dropped ones follows when the queue is empty, so
        # that it stands where they are missing.
        found = [self._waiting.popleft() for _ in range(min(_MAX_BATCH, len(self._waiting)))]
        if not self._waiting and self._dropped:
            found.append(_event("dropped", {"count": self._dropped}))
            self._dropped = 0
        return b"".join(found)


async def _events(
    hub: Hub, reader: TailReader, granted: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    decoder = shared_decoder(hub.tap)
    decoder.watchers.append(reader)
    try:
        yield b": messages as they cross the hub\n\n"
        check_at = hub.loop.time() + _KEEPALIVE_S
        while found := await reader.next():
            # A token that is removed or expires ends the stream, too: it is checked again with
            # every keep-alive, however busy the stream is.
            if hub.loop.time() >= check_at:
                check_at = hub.loop.time() + _KEEPALIVE_S
                if not await granted():
                    return
            yield found
    finally:
        _leave(hub, decoder, reader)


def _leave(hub: Hub, decoder: LiveDecoder, reader: TailReader) -> None:
    """Remove a reader, and the decoder when it has nothing left to do."""
    # Without observers the tap is inactive, and frames cost one attribute test again.
    decoder.watchers.remove(reader)
    if not decoder.watchers and decoder.tables is None and hub.tap.find(LiveDecoder) is decoder:
        hub.tap.remove(decoder)


def _filter(text: str) -> Filter:
    if len(text) > _FILTER_LENGTH:
        raise HubError("bad_arguments", f"filter: longer than {_FILTER_LENGTH} characters")
    try:
        return compile_filter(text, schema("messages"))
    except FilterError as error:
        raise HubError("bad_arguments", f"filter: {error}") from error


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for JSON: the body as text if it is UTF-8."""
    found = {key: value for key, value in row.items() if key not in _OMITTED}
    if "masked" in row:  # the fields of a link's packet repeat those of the message in its tunnel
        found["body"] = found[row["protocol"]] = None
        return found
    body = row["body"]
    if body is not None:
        try:
            found["body"] = body.decode()
        except UnicodeDecodeError:
            found["body_base64"] = found.pop("body")
    return found


def _end_of(connection: TrackedConnection | None) -> dict[str, str]:
    """Return the remote address and the client; nothing for a tunnel, which has no socket."""
    if connection is None:
        return {}
    client = connection.client
    return {
        "peer": "{}:{}".format(*connection.peer),
        "signed_on": "" if client is None else client.id,
    }


def _bytes_of(row: dict[str, Any], *, masked: bool) -> dict[str, Any]:
    """Return the masked frame of a message, if it has one."""
    frame: MaskedFrame | None = row.get("frame")
    if frame is None or masked:
        return {}
    return {"frame_hex": frame.masked().hex(), "dialect": frame.dialect}


async def table(request: Request) -> Response:
    """Answer with the newest rows of a live table, oldest first."""
    known_queries(request, "limit")
    limit = number(request, "limit", _DEFAULT_ROWS, KEPT_ROWS)
    name = request.path_params["table"]
    if name not in ENGINES:
        raise HubError("not_found", unknown("table", name[:40], ENGINES))
    rows = _live_tables(hub_of(request)).rows(name)
    shown = [exact(msgspec.structs.asdict(row)) for row in rows[max(0, len(rows) - limit) :]]
    return JsonResponse({"count": len(rows), "rows": shown})


def _live_tables(hub: Hub) -> LiveTables:
    decoder = hub.tap.find(LiveDecoder)
    if decoder is None or decoder.tables is None:
        raise HubError("not_found", "no live tables; set record.tables = true")
    return decoder.tables
