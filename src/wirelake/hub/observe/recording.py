"""Records what crosses the hub: frames, and as facts what the wire does not carry.

    publish   {id, topic?, client?, audience}        something was published
    sign_on   {client}                               who is at the other end
    close     {reason, side}                         why a connection ended, and who ended it

The matching rules (`docs/concepts/matching.md`) say what readers make of them. When a recording
cannot be written, the hub goes on, says so in its log and in `/varz`, and tries again in a new
file, after a second at first and a minute at most. What crossed meanwhile is lost, and counted in
a fact `lost` of that file and in the metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from wirelake.capture.record.recorder import Recorder
from wirelake.protocols.sansio import Side
from wirelake.records.tunnels import tunnel_connection

if TYPE_CHECKING:
    from wirelake.capture.format.items import Direction

    from ..config import RecordSettings
    from ..net.connection import Connection
    from ..pubsub.notification import Notification

__all__ = ["Recording", "close_data", "ends_of", "publish_data", "recorded_id"]

_log = logging.getLogger(__name__)
_FLUSH_BYTES: Final = 1 << 15
"""Written at a time: everybody waits meanwhile, so it is little."""
_NS: Final = 1_000_000_000
_FIRST_PAUSE_NS: Final = _NS
_LONGEST_PAUSE_NS: Final = 60 * _NS
"""How long nothing is tried: a full disk may be empty again soon, or stay so for days."""


class Recording:
    """An observer that writes."""

    def __init__(self, settings: RecordSettings):
        self._recorder: Recorder | None = Recorder(
            settings.folder,
            source=settings.source,
            rotate_bytes=settings.rotate_bytes,
            rotate_s=settings.rotate_s,
            keys=settings.keys,
            flush_bytes=_FLUSH_BYTES,
        )
        self._open: set[int] = set()
        self._pause_ns = 0
        self._paused_ns = 0
        """For how long, and since when, nothing is tried."""
        self._good_ns = 0
        """When the last file began."""
        self.lost = self._recorder.lost
        """What was not recorded, up to the last time that it could go on."""
        self.failure = ""
        """Why nothing is recorded now; empty while something is."""

    def opened(self, connection: Connection, ts_ns: int) -> None:
        """A connection was let in; one without a socket is seen on the link that carries it."""
        ends = ends_of(connection)
        if ends is None or self._recorder is None:
            return
        self._open.add(connection.id)
        recorder, (client, server) = self._recorder, ends
        self._try(
            ts_ns,
            lambda: recorder.open(connection.id, client, server, connection.protocol, ts_ns),
        )

    def crossed(
        self, connection: Connection, direction: Direction, frames: bytes, ts_ns: int
    ) -> None:
        """Whole frames came in or go out."""
        if connection.id not in self._open or self._recorder is None:
            return
        try:
            self._recorder.record(connection.id, direction, frames, ts_ns)
        except OSError as error:
            self._fail(error, ts_ns)

    def keys(self, connection: Connection, line: str) -> None:
        """The connection has keys; they are written when the configuration says so."""
        if self._recorder is not None and connection.id in self._open:
            self._recorder.secrets(line, connection.id)

    def signed_on(self, connection: Connection, client: str, ts_ns: int) -> None:
        """The connection belongs to a client now. In comet the wire says so itself."""
        recorder = self._recorder
        if recorder is not None and not connection.acks_all:
            number = recorded_id(connection)
            self._try(ts_ns, lambda: recorder.fact("sign_on", ts_ns, number, client=client))

    def published(
        self, notification: Notification, audience: int, client: str | None, ts_ns: int
    ) -> None:
        """Something was published."""
        recorder = self._recorder
        if recorder is not None:
            data = publish_data(notification, audience, client)
            self._try(ts_ns, lambda: recorder.fact("publish", ts_ns, None, **data))

    def closed(self, connection: Connection, ts_ns: int) -> None:
        """A connection is over."""
        recorder = self._recorder
        if connection.id in self._open:
            self._open.remove(connection.id)
            if recorder is not None:
                said = close_data(connection)
                self._try(ts_ns, lambda: recorder.close(connection.id, ts_ns, **said))

    def tick(self, ts_ns: int) -> None:
        """Time has passed: what is due is flushed and rotated, or tried again."""
        recorder = self._recorder
        if recorder is None:
            return
        if not self.failure:
            self._try(ts_ns, lambda: recorder.tick(ts_ns))
        elif not 0 <= ts_ns - self._paused_ns < self._pause_ns:
            self._resume(recorder, ts_ns)

    def stop(self) -> None:
        """Seals the last file."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.stop()
        except OSError as error:
            self.failure = _reason(error)
            _log.error("the recording's last file was not sealed: %s", self.failure)

    # -- when it cannot be written -----------------------------------------------------------

    def _try(self, ts_ns: int, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            self._fail(error, ts_ns)

    def _fail(self, error: OSError, ts_ns: int) -> None:
        """Writes nothing for a while; the shorter the last file lasted, the longer."""
        assert self._recorder is not None
        self.failure = _reason(error)
        lasted = ts_ns - self._good_ns >= _LONGEST_PAUSE_NS
        self._pause(ts_ns, _FIRST_PAUSE_NS if lasted else 2 * self._pause_ns)
        self._recorder.suspend(ts_ns, self.failure)
        _log.error(
            "recording stops: %s; the hub goes on without it, and tries again in %d s",
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
        self._good_ns = ts_ns
        _log.warning(
            "recording goes on; since the start %d frames of %d bytes and %d facts were lost",
            self.lost.frames,
            self.lost.bytes,
            self.lost.facts,
        )

    def _pause(self, ts_ns: int, pause_ns: int) -> None:
        self._paused_ns = ts_ns
        self._pause_ns = min(max(pause_ns, _FIRST_PAUSE_NS), _LONGEST_PAUSE_NS)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def ends_of(connection: Connection) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """Both ends of a connection, the client's first; None when it has no socket of its own."""
    if connection.transport is None:
        return None
    name = connection.transport.get_extra_info("sockname")
    peer = (_unscoped(connection.peer[0]), connection.peer[1])
    here = (_unscoped(str(name[0])), int(name[1]))
    return (peer, here) if connection.inward == "c2s" else (here, peer)


def _unscoped(host: str) -> str:
    """An address without the name of the interface that it is reached by."""
    return host.partition("%")[0]


def recorded_id(connection: Connection) -> int:
    """The id by which readers know a connection; a tunnel has one made of its key."""
    if connection.transport is not None:
        return connection.id
    tunnel: Any = connection
    return tunnel_connection(*tunnel.key)


def close_data(connection: Connection) -> dict[str, str]:
    """What the fact `close` says about a connection."""
    by_server = (connection.close_side is Side.LOCAL) == (connection.inward == "c2s")
    side = "server" if by_server else "client"
    return {"reason": connection.close_reason, "side": side}


def publish_data(
    notification: Notification, audience: int, client: str | None
) -> dict[str, object]:
    """What the fact `publish` says."""
    data: dict[str, object] = {"id": notification.id, "audience": audience}
    if notification.topic is not None:
        data["topic"] = notification.topic
    if client is not None:
        data["client"] = client
    return data
