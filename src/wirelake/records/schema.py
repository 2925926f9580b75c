"""The columns of every table, and their version.

    schema("calls")                    an Arrow schema
    messages_schema([comet, tny])      `messages`, with a struct for each of these protocols

Column names carry units. Every column is nullable, because Spark, DuckDB and Parquet then agree on
the schema; the doc of a column says when it is null. Integers are signed: an unsigned 64-bit number
is the int64 of the same bits. Columns are only ever added: `VERSION` counts such changes and is in
the metadata of each schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from wirelake.wire.meaning import KINDS

__all__ = ["COMMON", "TABLES", "VERSION", "schema"]

VERSION: Final = 3
"""Counts the additions to the schemas."""

_INT = pa.int64()
_TEXT = pa.string()


def _table(doc: str, *columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    fields = [pa.field(name, kind, metadata={"doc": about}) for name, kind, about in columns]
    return pa.schema(fields, metadata={"doc": doc, "wirelake_version": str(VERSION)})


_PLACE = (
    ("file", _TEXT, "The capture file, as it was named to the reader."),
    ("offset", _INT, "Where in the (uncompressed) file, in bytes."),
)

_MINUTE = ("minute_ns", _INT, "Beginning of the minute, ns since 1970.")

COMMON: Final = _table(
    "One row for each message; beside these columns, a struct with all fields of its protocol.",
    ("ts_ns", _INT, "When the packet that completed the message was captured, ns since 1970."),
    ("first_ns", _INT, "When the packet with its first byte was captured, ns since 1970."),
    ("connection", _INT, "Id of the connection, or of the tunnel that carried the message."),
    ("direction", _TEXT, "c2s from the client, s2c from the server."),
    ("protocol", _TEXT, "Name of the protocol."),
    ("kind", _TEXT, ", ".join(KINDS)),
    ("name", _TEXT, "Name of the message in its protocol."),
    ("message_id", _INT, "Its id; null where the protocol has none."),
    ("reply_to", _INT, "The id of the message that it answers; null when it says none."),
    ("target", _TEXT, "What is called: service/op, protocol number, business command, command."),
    ("status", _TEXT, "Of a response: ok, or the protocol's own code; else null."),
    ("reason", _TEXT, "What a failed response says in words, or why an end closes."),
    ("client", _TEXT, "Who signs on with this message; else null."),
    ("ids", pa.list_(pa.field("item", _TEXT)), "The notifications that it carries or acks."),
    ("body", pa.binary(), "The application's bytes, opened where a key is known."),
    ("sealed", pa.bool_(), "Whether the body is encrypted and no key was known."),
    ("size_bytes", _INT, "Bytes of the frame."),
    ("body_bytes", _INT, "Bytes of the body; null without one."),
    ("tunnel_link", _INT, "Of a message in a tunnel: the connection of the link; else null."),
    *_PLACE,
)
"""The columns of `messages` that every protocol has."""

TABLES: Final[dict[str, pa.Schema]] = {
    "packets": _table(
        "One row for each packet of a capture.",
        ("ts_ns", _INT, "When it was captured, ns since 1970."),
        *_PLACE,
        ("interface", pa.int32(), "Number of the interface within its section."),
        ("link", pa.int32(), "Link type."),
        ("captured_bytes", _INT, "Bytes in the file."),
        ("original_bytes", _INT, "Bytes on the wire."),
        ("src", _TEXT, "Source address."),
        ("src_port", pa.int32(), "Source port."),
        ("dst", _TEXT, "Destination address."),
        ("dst_port", pa.int32(), "Destination port."),
        ("seq", _INT, "TCP sequence number."),
        ("ack", _INT, "TCP acknowledgement number."),
        ("flags", pa.int32(), "TCP flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32."),
        ("payload_bytes", _INT, "Captured bytes of TCP payload."),
        ("connection", _INT, "Id of its connection; null when it is not TCP."),
        ("direction", _TEXT, "c2s or s2c; null when it is not TCP."),
        ("note", _TEXT, "Why it is no segment: not_ip, not_tcp, fragment, short, bad_header ..."),
    ),
    "faults": _table(
        "Bytes that would not decode: where, why, and the bytes.",
        ("ts_ns", _INT, "When the packet with the first was captured; null without packet."),
        *_PLACE,
        ("connection", _INT, "Id of the connection; null outside of streams."),
        ("direction", _TEXT, "c2s or s2c; null outside of streams."),
        ("protocol", _TEXT, "Name of the protocol; null outside of streams."),
        ("stream_offset", _INT, "Where in the stream; null outside of streams."),
        ("present_bytes", _INT, "How many bytes would not decode."),
        ("missing_bytes", _INT, "How many bytes in between were not captured."),
        ("code", _TEXT, "What is wrong, as a stable code."),
        ("field", _TEXT, "Dotted name of the field where it shows."),
        ("detail", _TEXT, "What is wrong, in words."),
        ("bytes", pa.binary(), "The first 256 of the bytes."),
    ),
    "coverage": _table(
        "One row for each stream: what became of its bytes.",
        ("file", _TEXT, "The capture file in which the stream began."),
        ("connection", _INT, "Id of the connection."),
        ("direction", _TEXT, "c2s or s2c."),
        ("protocol", _TEXT, "Name of the protocol; null when none was found."),
        ("first_ns", _INT, "When its first packet was captured."),
        ("last_ns", _INT, "When its last packet was captured."),
        ("packets", _INT, "Packets, those without payload included."),
        ("payload_bytes", _INT, "Payload captured: new and duplicate."),
        ("new_bytes", _INT, "Payload that was not seen before."),
        ("duplicate_bytes", _INT, "Payload that was seen before."),
        ("gap_bytes", _INT, "Bytes of the stream that were not captured."),
        ("span_bytes", _INT, "Length of the stream: new and gaps."),
        ("decoded_bytes", _INT, "New bytes in good messages."),
        ("faulty_bytes", _INT, "New bytes in faults."),
        ("undecryptable_bytes", _INT, "New bytes in sealed messages without a key."),
        ("ignored_bytes", _INT, "New bytes of no known protocol, or of an unfinished end."),
        ("messages", _INT, "Good messages."),
        ("faults", _INT, "Faults."),
    ),
    "calls": _table(
        "One row for each request and its answer; see the page of matching rules.",
        ("connection", _INT, "Id of the connection, or of the tunnel."),
        ("protocol", _TEXT, "Name of the protocol."),
        ("direction", _TEXT, "Of the request: c2s or s2c."),
        ("target", _TEXT, "What is called; null when the protocol or an orphan does not say."),
        ("message_id", _INT, "Id of the request; null where the protocol has none."),
        ("outcome", _TEXT, "answered, failed, lost, unknown, open or orphan."),
        ("cause", _TEXT, "Why it is lost, unknown or an orphan; null with no more to say."),
        ("request_ns", _INT, "When the request was complete, ns since 1970; null for an orphan."),
        ("response_ns", _INT, "When the answer was complete; null without one."),
        ("latency_ns", _INT, "From request_ns to response_ns; null without one of them."),
        ("first_part_ns", _INT, "When the first message of the answer was complete."),
        ("parts", _INT, "Messages of the answer: 0 without one, more than 1 for a sequence."),
        ("requests", _INT, "Messages of the request: 0 for an orphan, more than 1 when repeated."),
        ("traces", _INT, "Trace messages about the call."),
        ("duplicates", _INT, "Further answers after the first."),
        ("status", _TEXT, "Of the answer: ok, or the protocol's own code."),
        ("reason", _TEXT, "What a failed answer says in words."),
        ("request_bytes", _INT, "Bytes of the request's frames."),
        ("response_bytes", _INT, "Bytes of the answer's frames."),
        ("client", _TEXT, "Who was signed on; null when the capture does not tell."),
        ("tunnel_link", _INT, "Of a call in a tunnel: the connection of its link; else null."),
    ),
    "deliveries": _table(
        "One row for each notification and client: published, sent, acknowledged.",
        ("notification", _TEXT, "Id of the notification."),
        ("protocol", _TEXT, "Name of the protocol."),
        ("client", _TEXT, "Whom it was sent to; null when the capture does not tell."),
        ("outcome", _TEXT, "acked, unacked, unknown, unsent or orphan."),
        ("topic", _TEXT, "Where it was published; null without a recorder's fact."),
        ("published_ns", _INT, "When it was published, ns since 1970; null when nothing tells."),
        ("first_sent_ns", _INT, "When it was first sent; null when that was not seen."),
        ("last_sent_ns", _INT, "When it was last sent."),
        ("sends", _INT, "How often it was sent."),
        ("acked_ns", _INT, "When it was first acknowledged; null without."),
        ("acks", _INT, "How often it was acknowledged."),
        ("latency_ns", _INT, "From first_sent_ns to acked_ns; null without one of them."),
        ("first_connection", _INT, "The connection on which it was first sent."),
        ("last_connection", _INT, "The connection on which it was last sent."),
        ("acked_connection", _INT, "The connection on which it was first acknowledged."),
    ),
    "connections": _table(
        "One row for each TCP connection.",
        ("connection", _INT, "Id of the connection."),
        ("protocol", _TEXT, "Name of the protocol; null when none was found."),
        ("client_address", _TEXT, "Address of the client."),
        ("client_port", pa.int32(), "Port of the client."),
        ("server_address", _TEXT, "Address of the server."),
        ("server_port", pa.int32(), "Port of the server."),
        ("client", _TEXT, "Who signed on; null when nobody did."),
        ("signed_on_ns", _INT, "When that was, ns since 1970."),
        ("opened_ns", _INT, "When it began; null when the capture began later."),
        ("closed_ns", _INT, "When it ended; null when the capture ended earlier."),
        ("first_ns", _INT, "The first that was seen of it."),
        ("last_ns", _INT, "The last that was seen of it."),
        ("duration_ns", _INT, "From first_ns to last_ns."),
        ("closed_by", _TEXT, "client or server: who ended it; null when nothing tells."),
        ("closed_how", _TEXT, "fin, rst, or anew (its ends began a new one); null while open."),
        ("close_reason", _TEXT, "Why, as a recorder's fact or the protocol says; else null."),
        ("messages_c2s", _INT, "Messages from the client."),
        ("messages_s2c", _INT, "Messages from the server."),
        ("bytes_c2s", _INT, "Bytes of these."),
        ("bytes_s2c", _INT, "Bytes of these."),
        ("requests", _INT, "Requests, in both directions."),
        ("failures", _INT, "Answers other than ok, in both directions."),
        ("pushes", _INT, "Pushes and events, in both directions."),
        ("heartbeats", _INT, "Heartbeats; their answers are not counted."),
        ("handshake_ns", _INT, "From the first handshake message to the last; null without one."),
        ("resumed", pa.bool_(), "Whether a session was resumed; null when none was asked for."),
        ("previous_connection", _INT, "The one on which the same client signed on before."),
        ("network_type", _TEXT, "What the device says it is connected through."),
        ("isp", _TEXT, "Whose network it says it is on."),
        ("phone_type", _TEXT, "The model it says it is."),
        ("faults", _INT, "Faults of its streams, gaps included."),
        ("gaps", _INT, "Gaps in its streams."),
        ("missing_bytes", _INT, "Bytes in these gaps."),
    ),
    "tunnels": _table(
        "One row for each virtual connection between a gateway's user and a game server.",
        ("connection", _INT, "Id of the tunnel, as in messages and calls."),
        ("instance_id", _INT, "The gateway's instance."),
        ("tunnel_id", _INT, "The gateway's number for its user's connection."),
        ("outcome", _TEXT, "closed, refused, replaced, lost or open."),
        ("user_address", _TEXT, "Address of the user; null when the capture began later."),
        ("user_port", pa.int32(), "Port of the user."),
        ("first_link", _INT, "Connection of the link on which it was first seen."),
        ("last_link", _INT, "Connection of the link on which it was last seen."),
        ("switches", _INT, "How often it moved to another link."),
        ("opened_ns", _INT, "TUNNEL_CONNECT, ns since 1970; null when the capture began later."),
        ("connected_ns", _INT, "TUNNEL_CONNECTED with a good result; null without."),
        ("closed_ns", _INT, "When it ended; null while it is open or lost."),
        ("first_ns", _INT, "The first that was seen of it."),
        ("last_ns", _INT, "The last that was seen of it."),
        ("closed_by", _TEXT, "gateway or server: who ended it."),
        ("messages_c2s", _INT, "Messages from the user."),
        ("messages_s2c", _INT, "Messages from the server."),
        ("bytes_c2s", _INT, "Bytes of these."),
        ("bytes_s2c", _INT, "Bytes of these."),
        ("late_messages", _INT, "How many of them came after its end."),
    ),
    "traffic_minutes": _table(
        "Messages by minute.",
        _MINUTE,
        ("protocol", _TEXT, "Name of the protocol."),
        ("direction", _TEXT, "c2s or s2c."),
        ("kind", _TEXT, "As in messages."),
        ("messages", _INT, "How many."),
        ("bytes", _INT, "Bytes of their frames."),
    ),
    "latency_minutes": _table(
        "Calls with a latency by the minute of their answer, in buckets that are always the same: "
        "eight to each doubling of the latency. Their counts can be added up exactly.",
        _MINUTE,
        ("protocol", _TEXT, "Name of the protocol."),
        ("target", _TEXT, "What is called; null when that is not known."),
        ("bucket", pa.int32(), "Number of the bucket, in the order of latency."),
        ("from_ns", _INT, "The least latency of the bucket."),
        ("below_ns", _INT, "The least latency of the next bucket."),
        ("calls", _INT, "How many."),
        ("latency_ns", _INT, "The sum of their latencies."),
    ),
    "delivery_minutes": _table(
        "Deliveries by the minute in which they were published, or first sent, or acknowledged.",
        _MINUTE,
        ("protocol", _TEXT, "Name of the protocol."),
        ("topic", _TEXT, "Where they were published; null without a recorder's fact."),
        ("deliveries", _INT, "How many: notifications times clients."),
        ("sent", _INT, "Those that were sent."),
        ("acked", _INT, "Those that were sent and acknowledged."),
        ("unacked", _INT, "Those that were sent and not acknowledged."),
        ("unknown", _INT, "Those whose acknowledgement may be among what is missing."),
        ("unsent", _INT, "Those that were published and never sent."),
        ("orphans", _INT, "Those that were acknowledged, and the sending was not seen."),
        ("sends", _INT, "How often they were sent, all together."),
        ("latency_ns", _INT, "The sum of the times from first sending to acknowledgement."),
    ),
    "error_minutes": _table(
        "What went wrong, by minute.",
        _MINUTE,
        ("what", _TEXT, "failed (an answer other than ok), lost, unknown (calls), or fault."),
        ("protocol", _TEXT, "Name of the protocol; null when a fault is outside of streams."),
        ("target", _TEXT, "What was called; null for faults."),
        ("code", _TEXT, "The status of the answer, the cause, or the code of the fault."),
        ("errors", _INT, "How many."),
    ),
    "talker_minutes": _table(
        "The twenty connections with the most bytes of each minute.",
        _MINUTE,
        ("rank", pa.int32(), "1 for the one with the most bytes."),
        ("protocol", _TEXT, "Name of the protocol."),
        ("connection", _INT, "Id of the connection, or of the tunnel."),
        ("messages", _INT, "Its messages in this minute."),
        ("bytes", _INT, "Bytes of their frames."),
    ),
}
"""The tables with fixed columns. `messages` is made by `messages_schema`."""


def schema(table: str, protocols: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of a table. `protocols` selects the structs of `messages`."""
    if table == "messages":
        from .structs import messages_schema

        return messages_schema(protocols)
    if table not in TABLES:
        known = ", ".join(["messages", *TABLES])
        raise ValueError(f"unknown table {table!r}; expected one of {known}")
    return TABLES[table]
