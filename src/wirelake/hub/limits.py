"""Limits of the hub, each with the reason for its default. Limits of a protocol are in its package.

A peer that exceeds a limit gets an error, or is closed with the name of the limit as the reason;
both are counted. Nothing is dropped silently.
"""

from __future__ import annotations

import msgspec

__all__ = ["ActiveLimits", "Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits per hub, address, connection and client."""

    connections: int = 100_000
    """Open connections on all listeners: 400 MB when they are idle."""
    connections_per_address: int = 20_000
    """Open connections from one address: a carrier's gateway has thousands of phones behind one."""
    half_open_per_address: int = 256
    """Connections from one address that have not signed on."""
    half_open: int = 16_384
    """Connections from all addresses that have not signed on."""
    connects_per_s: float = 5_000.0
    """Connections accepted per second on average; bursts may be twice that."""
    bytes_per_turn: int = 16_384
    """Received bytes of one connection that are processed in one turn of the loop: five thousand
    of the smallest frames, about twenty milliseconds."""
    write_buffer: int = 1 << 20
    """Unread bytes after which a peer counts as slow: several seconds for a phone."""
    slow_reader_s: float = 30.0
    """How long a peer may be slow before it is disconnected."""
    frame_s: float = 10.0
    """How long a frame may take to arrive, in addition to the time for its bytes."""
    frame_bytes_per_s: float = 1_024.0
    """Minimum rate at which a frame may arrive."""
    auth_s: float = 10.0
    """Time to sign on, where the protocol has no limit of its own."""
    auth_attempts: int = 3
    """Failed sign-ons on one connection."""
    in_flight: int = 256
    """Unacknowledged notifications pushed to one client; further ones wait."""
    calls: int = 256
    """Running calls of one connection."""
    subscriptions: int = 127
    """Topics of one client: as many as fit one comet topic_list."""
    topics: int = 1_000_000
    """Topics with subscribers."""
    content_bytes: int = 16_384
    """Content of one notification: half a comet frame (comet rule 8)."""
    inbox: int = 10_000
    """Backlog of one client; beyond that the oldest become dead letters."""
    ttl_s: int = 7 * 86_400
    """Default time to live of a notification."""
    tail_watchers: int = 16
    """Readers of `/v1/tail` at the same time; the filter of each is applied to every message."""
    drain_s: float = 5.0
    """How long running calls may take when the hub shuts down."""


class ActiveLimits:
    """The limits in force. Parts of the hub share one object, whose value a reload replaces."""

    __slots__ = ("current",)

    def __init__(self, current: Limits):
        self.current = current
