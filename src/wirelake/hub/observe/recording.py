"""The observer that writes capture files: frames, and as facts what the wire does not carry.

    publish   {id, topic?, client?, protocol?, audience}   a notification was published
    sign_on   {client}                                     the client of the connection
    close     {reason, side}                               why a connection was closed, by whom

`docs/concepts/matching.md` defines how readers use them. When a recording cannot be written, the
hub continues without it, reports that in its log and in `/varz`, and retries with a new file,
after one second at first and after one minute at most. Frames in between are not recorded; their
number is in a fact `lost` of the new file and in the metrics. A recording that a killed hub has
left open is sealed at the next start.

The functions at the end say how a connection appears in recordings; the live decoder uses them too,
so that live tables and the tables of the recording are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wirelake.capture.format.writer import is_being_written, open_files
from wirelake.capture.record.recorder import Recorder
from wirelake.capture.tools.repair import seal_abandoned
from wirelake.protocols import registry
from wirelake.protocols.sansio import Side
from wirelake.records.tunnels import tunnel_connection

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..config import RecordSettings
    from .tap import ObservedConnection

__all__ = [
    "Recording",
    "close_fact",
    "endpoints_of",
    "recorded_id",
    "wire_has_client",
]


_log = logging.getLogger(__name__)
_FLUSH_BYTES: Final = 1 << 15
"""Bytes per write. The event loop writes the file itself and waits for it: 32 KB go to the page
cache in microseconds, and p99 of calls is 1.04 times that without recording at 20,000 frames per
second (benchmarks/results/hub.json, recording). What is smaller is flushed with `tick`."""
_NS: Final = 1_000_000_000
_MIN_PAUSE_NS: Final = _NS
_MAX_PAUSE_NS: Final = 60 * _NS
"""Pause before a retry: a full disk may have space again soon, or stay full for days."""


class Recording:
    """An observer that writes capture files."""

    def __init__(self, settings: RecordSettings):
        _seal_left_open(Path(settings.folder), settings.source)
        self._recorder: Recorder | None = Recorder(
            settings.folder,
            source=settings.source,
            rotate_bytes=settings.rotate_bytes,
            rotate_s=settings.rotate_s,
            keys=settings.keys,
            flush_bytes=_FLUSH_BYTES,
        )
        self._open: set[int] = set()
        """Recorded connections: those that were opened while this was an observer."""
        self._pause_ns = 0
        self._paused_ns = 0
        """How long, and since when, recording is paused."""
        self._resumed_ns = 0
        """When recording last resumed."""
        self.lost = self._recorder.lost
        """What was not recorded, up to the last resume."""
        self.failure = ""
        """Why recording is paused; empty while it is not."""

    def opened(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Record a new connection. A tunnel has no socket: its bytes are on the link."""
        # Also while recording is paused: the recorder notes it, and counts what it misses.
        ends = endpoints_of(connection)
        if ends is None or self._recorder is None:
            return
        self._open.add(connection.id)
        recorder, (client, server) = self._recorder, ends
        self._try(
            ts_ns,
            lambda: recorder.open(connection.id, client, server, connection.protocol, ts_ns),
        )

    def crossed(
        self, connection: ObservedConnection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Record whole frames."""
        if connection.id not in self._open or self._recorder is None:
            return
        try:  # not `_try`: this is called for every frame, and a lambda would cost as much again
            self._recorder.record(connection.id, direction, frames, ts_ns)
        except OSError as error:
            self._fail(error, ts_ns)

    def keys(self, connection: ObservedConnection, line: str) -> None:
        """Record the keys of a connection, if `record.keys` is set."""
        if self._recorder is not None and connection.id in self._open:
            self._recorder.secrets(line, connection.id)

    def signed_on(self, connection: ObservedConnection, client: str, ts_ns: int) -> None:
        """Record a sign-on, unless its message has the client id."""
        recorder = self._recorder
        if recorder is not None and not wire_has_client(connection):
            number = recorded_id(connection)
            self._try(ts_ns, lambda: recorder.fact("sign_on", ts_ns, number, client=client))

    def published(self, fact: dict[str, object], ts_ns: int) -> None:
        """Record a publish."""
        recorder = self._recorder
        if recorder is not None:
            self._try(ts_ns, lambda: recorder.fact("publish", ts_ns, None, **fact))

    def closed(self, connection: ObservedConnection, ts_ns: int) -> None:
        """Record the end of a connection."""
        recorder = self._recorder
        if connection.id in self._open:
            self._open.remove(connection.id)
            if recorder is not None:
                fact = close_fact(connection)
                self._try(ts_ns, lambda: recorder.close(connection.id, ts_ns, **fact))

    def tick(self, ts_ns: int) -> None:
        """Flush and rotate what is due, or retry."""
        recorder = self._recorder
        if recorder is None:
            return
        if not self.failure:
            self._try(ts_ns, lambda: recorder.tick(ts_ns))
        elif not 0 <= ts_ns - self._paused_ns < self._pause_ns:  # also if the clock was set back
            self._resume(recorder, ts_ns)

    def stop(self) -> None:
        """Seal the last file."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.stop()
        except OSError as error:
            self.failure = _reason(error)
            _log.error("cannot seal the last recording: %s", self.failure)

    # -- write errors ------------------------------------------------------------------------

    def _try(self, ts_ns: int, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self._fail(error, ts_ns)

    def _fail(self, error: OSError, ts_ns: int) -> None:
        """Pause recording; longer each time, unless it worked for a while since the last error."""
        assert self._recorder is not None
        self.failure = _reason(error)
        # A disk that is nearly full accepts a little after each retry: without this, every retry
        # would reset the pause, and the log would have an error every second.
        lasted = ts_ns - self._resumed_ns >= _MAX_PAUSE_NS
        self._pause(ts_ns, _MIN_PAUSE_NS if lasted else 2 * self._pause_ns)
        self._recorder.suspend(ts_ns, self.failure)
        _log.error(
            "recording failed: %s; the hub continues without it and retries in %d s",
            self.failure,
            self._pause_ns // _NS,
        )

    def _resume(self, recorder: Recorder, ts_ns: int) -> None:
        try:
            recorder.resume(ts_ns)
        except OSError as error:
            self.failure = _reason(error)
            self._pause(ts_ns, 2 * self._pause_ns)
            recorder.suspend(ts_ns, self.failure)
            return
        self.failure = ""
        self._resumed_ns = ts_ns
        _log.warning(
            "recording resumed; not recorded since the start: %d frames with %d bytes, %d facts",
            self.lost.frames,
            self.lost.bytes,
            self.lost.facts,
        )

    def _pause(self, ts_ns: int, pause_ns: int) -> None:
        self._paused_ns = ts_ns
        self._pause_ns = min(max(pause_ns, _MIN_PAUSE_NS), _MAX_PAUSE_NS)


def _seal_left_open(folder: Path, source: str) -> None:
    """Seal the recordings of this source that a killed hub has left; a failure is logged."""
    for path in open_files(folder, source):
        try:
            if is_being_written(path):
                continue
            sealed = seal_abandoned(path)
        except (OSError, ValueError) as error:
            _log.warning(
                "%s: cannot be sealed: %s; `wirelake capture repair` may help", path, error
            )
            continue
        if sealed is not None:
            _log.warning(
                "sealed %s, which a hub that was killed had left open: %d packets, %d bytes lost",
                sealed.path,
                sealed.packets,
                sealed.lost_bytes,
            )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


# -- connections in recordings -------------------------------------------------------------------


def endpoints_of(connection: ObservedConnection) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """Return client and server address of a connection; None for a tunnel."""
    if connection.transport is None:
        return None
    name = connection.transport.get_extra_info("sockname")
    peer = (_unscoped(connection.peer[0]), connection.peer[1])
    here = (_unscoped(str(name[0])), int(name[1]))
    return (peer, here) if connection.direction_in == "c2s" else (here, peer)


def _unscoped(host: str) -> str:
    """Return an IPv6 address without its zone."""
    return host.partition("%")[0]


def wire_has_client(connection: ObservedConnection) -> bool:
    """Return whether the sign-on message of the protocol has a field with the client id.

    Where the id is an argument of a call, readers may lack the key of its body, so the fact is
    written all the same.
    """
    return registry.find(connection.protocol).meaning.client is not None


def recorded_id(connection: ObservedConnection) -> int:
    """Return the id of a connection in recordings; a tunnel's is derived from its key."""
    if connection.transport is not None:
        return connection.id
    tunnel: Any = connection
    return tunnel_connection(*tunnel.key)


def close_fact(connection: ObservedConnection) -> dict[str, str]:
    """Return the data of the fact `close`."""
    # On a link that the hub dialled, the hub is the client.
    by_server = (connection.close_side is Side.LOCAL) == (connection.direction_in == "c2s")
    side = "server" if by_server else "client"
    return {"reason": connection.close_reason, "side": side}
