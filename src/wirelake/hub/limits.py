"""Limits of the hub itself; each default with its reason. Those of a protocol are in its package.

What a peer does beyond a limit is answered or closed with the limit's name as the reason, and
counted; nothing is dropped in silence.
"""

from __future__ import annotations

import msgspec

__all__ = ["ActiveLimits", "Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the hub lets its peers have."""

    connections: int = 100_000
    """At a time, on all listeners: 400 MB of idle ones."""
    connections_per_address: int = 20_000
    """From one address: a carrier's gateway holds thousands of phones behind one."""
    half_open_per_address: int = 256
    """Connections of one address that have not signed on; who floods gets no further."""
    half_open: int = 16_384
    """The same, of all addresses together."""
    connects_per_s: float = 5_000.0
    """Connections accepted in a second, on average; a burst of twice as many may come at once."""
    bytes_per_turn: int = 16_384
    """Of one connection, given to its session in one turn of the loop: five thousand of the
    smallest frames there are, which take some twenty milliseconds."""
    write_buffer: int = 1 << 20
    """Bytes that a peer has not read before it counts as slow: several seconds of a phone."""
    slow_reader_s: float = 30.0
    """How long a peer may be slow before it is dropped."""
    frame_s: float = 10.0
    """How long a frame may take to arrive, beside the time that its bytes have."""
    frame_bytes_per_s: float = 1_024.0
    """The least rate at which a frame may come in."""
    auth_s: float = 10.0
    """To sign on, where the protocol has no limit of its own."""
    auth_attempts: int = 3
    """Failed attempts on one connection."""
    in_flight: int = 256
    """Notifications that one client may owe an acknowledgement for; further ones wait."""
    calls: int = 256
    """Calls of one connection that are being worked on."""
    subscriptions: int = 127
    """Topics of one client: what fits one comet topic_list."""
    topics: int = 1_000_000
    """Topics with a subscriber."""
    content_bytes: int = 16_384
    """Of one notification: half a comet frame (comet rule 8)."""
    inbox: int = 10_000
    """Notifications that wait for one client; the oldest beyond that become dead letters."""
    ttl_s: int = 7 * 86_400
    """How long a notification is kept unless its publisher says otherwise."""
    tail_watchers: int = 16
    """Readers of `/v1/tail` at a time; each costs as much as decoding everything once more."""
    drain_s: float = 5.0
    """How long calls under way may take when the hub goes down."""


class ActiveLimits:
    """The limits in force. Parts of the hub share one object, whose value a reload replaces."""

    __slots__ = ("current",)

    def __init__(self, current: Limits):
        self.current = current
