"""What crosses from one connection to others: between the folds and the tables made across them.

A fold over connections (`wirelake.columnar.fold`) writes these; `deliveries`, `tunnels` and the
column `previous_connection` are made of them. Their names begin with `_`: they are no tables for
people. All but `_tunnel_events` may be looked at in any order.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["CROSSING"]

_INT = pa.int64()
_TEXT = pa.string()


def _table(doc: str, *columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"doc": about}) for name, kind, about in columns]
    return pa.schema(fields, metadata={"doc": doc})


_WHOM = (
    ("client", _TEXT, "Who was signed on; null when the capture does not tell."),
    ("connection", _INT, "The connection in place of a client that is not known; else null."),
)

CROSSING: Final[dict[str, pa.Schema]] = {
    "_delivery_parts": _table(
        "A part of a row of deliveries: what one stretch of a connection adds to it.",
        ("protocol", _TEXT, "Name of the protocol."),
        *_WHOM,
        ("notification", _TEXT, "Id of the notification."),
        ("sends", _INT, "How often it was sent."),
        ("first_sent_ns", _INT, "When it was first sent, ns since 1970; null when it was not."),
        ("first_connection", _INT, "The connection on which that was."),
        ("last_sent_ns", _INT, "When it was last sent."),
        ("last_connection", _INT, "The connection on which that was."),
        ("acks", _INT, "How often it was acknowledged."),
        ("acked_ns", _INT, "When it was first acknowledged; null when it was not."),
        ("acked_connection", _INT, "The connection on which that was."),
        ("published_ns", _INT, "When it was published, as it says itself; else null."),
        ("last_event_ns", _INT, "The last that was heard of it."),
    ),
    "_delivery_faults": _table(
        "Faults that may hide an acknowledgement.",
        *_WHOM,
        ("ts_ns", _INT, "When, ns since 1970."),
    ),
    "_publications": _table(
        "What recorders knew about notifications.",
        ("notification", _TEXT, "Id of the notification."),
        ("ts_ns", _INT, "When it was published, ns since 1970."),
        ("topic", _TEXT, "Where; null when the fact does not say."),
        ("client", _TEXT, "For whom; null when the fact names nobody."),
        ("protocol", _TEXT, "Name of the protocol, as the fact says or by default."),
    ),
    "_sign_ons": _table(
        "Each time that a connection got a client, or another one.",
        ("protocol", _TEXT, "Name of the protocol."),
        ("client", _TEXT, "Who signed on."),
        ("connection", _INT, "Id of the connection."),
        ("ts_ns", _INT, "When, ns since 1970."),
    ),
    "_tunnel_events": _table(
        "What happens to tunnels. The order is that of time, rank, link and number.",
        ("event", _TEXT, "message, fault or closed."),
        ("tunnel", _INT, "Connection id of the tunnel; null for what happens to a whole link."),
        ("ts_ns", _INT, "When, ns since 1970."),
        ("rank", _INT, "Which of several events comes first at one and the same time."),
        ("link", _INT, "Connection id of the link."),
        ("number", _INT, "Counts the events of a link, within one step."),
        ("connection", _INT, "As in messages: of the tunnel, or of the link."),
        ("direction", _TEXT, "c2s or s2c; null for an end."),
        ("protocol", _TEXT, "Of a message: name of its protocol."),
        ("kind", _TEXT, "Of a message, as in messages; so are the columns that follow."),
        ("name", _TEXT, "Name of the message in its protocol."),
        ("message_id", _INT, "Its id."),
        ("reply_to", _INT, "The id of the message that it answers."),
        ("target", _TEXT, "What is called; null for a packet about a tunnel."),
        ("status", _TEXT, "Of a response: ok, or the protocol's own code."),
        ("reason", _TEXT, "What a failed response says in words."),
        ("client", _TEXT, "Who signs on with this message."),
        ("size_bytes", _INT, "Bytes of the frame."),
        ("tunnel_link", _INT, "Of a message in a tunnel: the connection of the link."),
        ("code", _TEXT, "Of a fault: what is wrong, as a stable code."),
        ("instance_id", _INT, "Of a packet about a tunnel: the gateway's instance."),
        ("tunnel_id", _INT, "Of a packet about a tunnel: the gateway's number for it."),
        ("ip", pa.binary(), "Of the packet that opens a tunnel: the user's address."),
        ("port", _INT, "Of the packet that opens a tunnel: the user's port."),
        ("result", pa.bool_(), "Of the answer to it: whether the tunnel is open."),
    ),
}
"""By name."""
