"""The columns of every table, and their version.

    schema("calls")                    an Arrow schema
    messages_schema([comet, tny])      `messages`, with a struct for each of these protocols

Column names carry units. Every column is nullable, because Spark, DuckDB and Parquet then agree on
the schema; the doc of a column states when it is null. Integers are signed: an unsigned 64-bit
number is the int64 of the same bits. Columns are only ever added: `VERSION` counts such changes and
is in the metadata of each schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from wirelake.wire.errors import unknown
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
    ("file", _TEXT, "The capture file, as passed to the reader."),
    ("offset", _INT, "Offset in the (uncompressed) file, in bytes."),
)

_MINUTE = ("minute_ns", _INT, "Beginning of the minute, ns since 1970.")

COMMON: Final = _table(
    "One row for each message; besides these columns, a struct with all fields of its protocol.",
    ("ts_ns", _INT, "When the packet that completed the message was captured, ns since 1970."),
    ("first_ns", _INT, "When the packet with its first byte was captured, ns since 1970."),
    ("connection", _INT, "Id of the connection, or of the tunnel that carried the message."),
    ("direction", _TEXT, "c2s from the client, s2c from the server."),
    ("protocol", _TEXT, "Name of the protocol."),
    ("kind", _TEXT, ", ".join(KINDS)),
    ("name", _TEXT, "Name of the message in its protocol."),
    ("message_id", _INT, "Its id; null where the protocol has none."),
    ("reply_to", _INT, "The id of the message that it answers; null without one."),
    ("target", _TEXT, "Target of a call: service/op, protocol number, business command, command."),
    ("status", _TEXT, "Of a response: ok, or the protocol's own code; else null."),
    ("reason", _TEXT, "Text of a failed response, or reason of a close."),
    ("client", _TEXT, "The client that signs on with this message; else null."),
    ("ids", pa.list_(pa.field("item", _TEXT)), "Ids of the notifications carried or acknowledged."),
    ("body", pa.binary(), "The application's bytes, decrypted where a key is known."),
    (
        "sealed",
        pa.bool_(),
        "Whether the body, or an item of a list, is encrypted and no key is known.",
    ),
    (
        "size_bytes",
        _INT,
        "Bytes of the frame; of a message in a tunnel, its part of the link's frame.",
    ),
    ("body_bytes", _INT, "Bytes of the body; null without one."),
    ("tunnel_link", _INT, "Of a message in a tunnel: the connection of the link; else null."),
    *_PLACE,
)
"""The columns of `messages` that every protocol has."""

TABLES: Final[dict[str, pa.Schema]] = {
    "packets": _table(
        "One row for each packet of a capture.",
        ("ts_ns", _INT, "Capture time, ns since 1970."),
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
        (
            "note",
            _TEXT,
            "Why it is not a segment: not_ip, not_tcp, fragment, short, bad_header ...",
        ),
    ),
    "faults": _table(
        "Bytes that could not be decoded: position, reason, and the bytes.",
        ("ts_ns", _INT, "Capture time of the packet that revealed it; null without a packet."),
        *_PLACE,
        ("connection", _INT, "Id of the connection; null outside of streams."),
        ("direction", _TEXT, "c2s or s2c; null outside of streams."),
        ("protocol", _TEXT, "Name of the protocol; null outside of streams."),
        ("stream_offset", _INT, "Offset in the stream; null outside of streams."),
        ("present_bytes", _INT, "Number of bytes that could not be decoded."),
        ("missing_bytes", _INT, "Number of bytes in between that were not captured."),
        ("code", _TEXT, "Stable code of the error."),
        ("field", _TEXT, "Dotted name of the field with the error."),
        ("detail", _TEXT, "Text of the error."),
        ("bytes", pa.binary(), "The first 256 of the bytes."),
    ),
    "coverage": _table(
        "One row for each stream: how many of its bytes were decoded, faulty or missing.",
        ("file", _TEXT, "The capture file in which the stream starts."),
        ("connection", _INT, "Id of the connection."),
        ("direction", _TEXT, "c2s or s2c."),
        ("protocol", _TEXT, "Name of the protocol; null when none was detected."),
        ("first_ns", _INT, "Capture time of its first packet."),
        ("last_ns", _INT, "Capture time of its last packet."),
        ("packets", _INT, "Packets, including those without payload."),
        ("payload_bytes", _INT, "Payload captured: new and duplicate."),
        ("new_bytes", _INT, "Payload captured for the first time."),
        ("duplicate_bytes", _INT, "Payload captured before (retransmissions)."),
        ("gap_bytes", _INT, "Bytes of the stream that were not captured."),
        ("span_bytes", _INT, "Length of the stream: new and gaps."),
        ("decoded_bytes", _INT, "New bytes in decoded messages."),
        ("faulty_bytes", _INT, "New bytes in faults."),
        ("undecryptable_bytes", _INT, "New bytes in sealed messages without a key."),
        ("ignored_bytes", _INT, "New bytes of no known protocol, or of an unfinished end."),
        ("messages", _INT, "Decoded messages."),
        ("faults", _INT, "Faults."),
    ),
    "calls": _table(
        "One row for each request and its response; see the page of matching rules.",
        ("connection", _INT, "Id of the connection, or of the tunnel."),
        ("protocol", _TEXT, "Name of the protocol."),
        ("direction", _TEXT, "Of the request: c2s or s2c."),
        ("target", _TEXT, "Target of the call; null if the protocol has none, and for orphans."),
        ("message_id", _INT, "Id of the request; null where the protocol has none."),
        ("outcome", _TEXT, "answered, failed, lost, unknown, open or orphan."),
        ("cause", _TEXT, "Why it is lost, unknown or an orphan; else null."),
        ("request_ns", _INT, "When the request was complete, ns since 1970; null for an orphan."),
        ("response_ns", _INT, "When the response was complete; null without one."),
        ("latency_ns", _INT, "From request_ns to response_ns; null without one of them."),
        ("first_part_ns", _INT, "When the first message of the response was complete."),
        ("parts", _INT, "Messages of the response: 0 without one, more than 1 for a sequence."),
        ("requests", _INT, "Messages of the request: 0 for an orphan, more than 1 when repeated."),
        ("traces", _INT, "Trace messages about the call."),
        ("duplicates", _INT, "Further responses after the first."),
        ("status", _TEXT, "Of the response: ok, or the protocol's own code."),
        ("reason", _TEXT, "Text of a failed response."),
        ("request_bytes", _INT, "Bytes of the request's frames."),
        ("response_bytes", _INT, "Bytes of the response's frames."),
        ("client", _TEXT, "The signed-on client; null if unknown."),
        ("tunnel_link", _INT, "Of a call in a tunnel: the connection of its link; else null."),
    ),
    "deliveries": _table(
        "One row for each notification and client: published, sent, acknowledged.",
        ("notification", _TEXT, "Id of the notification."),
        ("protocol", _TEXT, "Name of the protocol."),
        ("client", _TEXT, "The recipient; null if unknown."),
        ("outcome", _TEXT, "acked, unacked, unknown, unsent or orphan."),
        ("topic", _TEXT, "Its topic; null without a recorder's fact."),
        ("published_ns", _INT, "Publication time, ns since 1970; null if unknown."),
        ("first_sent_ns", _INT, "Time of the first send; null if it was not captured."),
        ("last_sent_ns", _INT, "Time of the last send."),
        ("sends", _INT, "Number of sends."),
        ("acked_ns", _INT, "Time of the first acknowledgement; null without one."),
        ("acks", _INT, "Number of acknowledgements."),
        ("latency_ns", _INT, "From first_sent_ns to acked_ns; null without one of them."),
        ("first_connection", _INT, "Connection of the first send."),
        ("last_connection", _INT, "Connection of the last send."),
        ("acked_connection", _INT, "Connection of the first acknowledgement."),
    ),
    "connections": _table(
        "One row for each TCP connection.",
        ("connection", _INT, "Id of the connection."),
        ("protocol", _TEXT, "Name of the protocol; null when none was detected."),
        ("client_address", _TEXT, "Address of the client."),
        ("client_port", pa.int32(), "Port of the client."),
        ("server_address", _TEXT, "Address of the server."),
        ("server_port", pa.int32(), "Port of the server."),
        ("client", _TEXT, "The client that signed on; null without one."),
        ("signed_on_ns", _INT, "Time of the sign-on, ns since 1970."),
        ("opened_ns", _INT, "When it was opened; null if the capture starts later."),
        ("closed_ns", _INT, "When it was closed; null if the capture ends earlier."),
        ("first_ns", _INT, "Time of its first captured packet."),
        ("last_ns", _INT, "Time of its last captured packet."),
        ("duration_ns", _INT, "From first_ns to last_ns."),
        ("closed_by", _TEXT, "The side that closed it, client or server; null if unknown."),
        (
            "closed_how",
            _TEXT,
            "fin, rst, or anew (a new connection reused its ports); null if open.",
        ),
        ("close_reason", _TEXT, "Reason, from a recorder's fact or the protocol; else null."),
        ("messages_c2s", _INT, "Messages from the client."),
        ("messages_s2c", _INT, "Messages from the server."),
        ("bytes_c2s", _INT, "Bytes of the client's messages."),
        ("bytes_s2c", _INT, "Bytes of the server's messages."),
        ("requests", _INT, "Requests, in both directions."),
        ("failures", _INT, "Responses other than ok, in both directions."),
        ("pushes", _INT, "Pushes and events, in both directions."),
        ("heartbeats", _INT, "Heartbeats, without their responses."),
        ("handshake_ns", _INT, "Duration of the handshake; null without one."),
        ("resumed", pa.bool_(), "Whether a session was resumed; null if not requested."),
        ("previous_connection", _INT, "Connection of the same client's previous sign-on."),
        ("network_type", _TEXT, "Network type, as reported by the device."),
        ("isp", _TEXT, "Network operator, as reported by the device."),
        ("phone_type", _TEXT, "Model, as reported by the device."),
        ("faults", _INT, "Faults of its streams, including gaps."),
        ("gaps", _INT, "Gaps in its streams."),
        ("missing_bytes", _INT, "Bytes in these gaps."),
    ),
    "tunnels": _table(
        "One row for each virtual connection between a gateway's user and a game server.",
        ("connection", _INT, "Id of the tunnel, as in messages and calls."),
        ("instance_id", _INT, "The gateway's instance."),
        ("tunnel_id", _INT, "The gateway's id of its user's connection."),
        ("outcome", _TEXT, "closed, refused, replaced, lost or open."),
        ("user_address", _TEXT, "Address of the user; null if the capture starts later."),
        ("user_port", pa.int32(), "Port of the user."),
        ("first_link", _INT, "Connection of its first link."),
        ("last_link", _INT, "Connection of its last link."),
        ("switches", _INT, "Number of moves to another link."),
        ("opened_ns", _INT, "Time of TUNNEL_CONNECT, ns since 1970; null if not captured."),
        ("connected_ns", _INT, "Time of a positive TUNNEL_CONNECTED; null without one."),
        ("closed_ns", _INT, "When it was closed; null while it is open or lost."),
        ("first_ns", _INT, "Time of its first captured message."),
        ("last_ns", _INT, "Time of its last captured message."),
        ("closed_by", _TEXT, "The side that closed it: gateway or server."),
        ("messages_c2s", _INT, "Messages from the user."),
        ("messages_s2c", _INT, "Messages from the server."),
        ("bytes_c2s", _INT, "Bytes of the user's messages."),
        ("bytes_s2c", _INT, "Bytes of the server's messages."),
        ("late_messages", _INT, "Messages after its end."),
    ),
    "traffic_minutes": _table(
        "Messages by minute. Every byte counts once: bytes in a tunnel are those of its link.",
        _MINUTE,
        ("protocol", _TEXT, "Name of the protocol."),
        ("direction", _TEXT, "c2s or s2c."),
        ("kind", _TEXT, "As in messages."),
        ("messages", _INT, "Number of messages."),
        ("bytes", _INT, "Bytes of their frames; those in tunnels count with the link's frames."),
    ),
    "latency_minutes": _table(
        "Calls with a latency by the minute of their response, in fixed buckets: eight for each "
        "doubling of the latency. Counts can be added exactly.",
        _MINUTE,
        ("protocol", _TEXT, "Name of the protocol."),
        ("target", _TEXT, "Target of the calls; null if unknown."),
        ("bucket", pa.int32(), "Number of the bucket, in the order of latency."),
        ("from_ns", _INT, "Lower bound of the bucket (inclusive)."),
        ("below_ns", _INT, "Upper bound of the bucket (exclusive)."),
        ("calls", _INT, "Number of calls."),
        ("latency_ns", _INT, "Sum of their latencies."),
    ),
    "delivery_minutes": _table(
        "Deliveries by the minute in which they were published, or first sent, or acknowledged.",
        _MINUTE,
        ("protocol", _TEXT, "Name of the protocol."),
        ("topic", _TEXT, "Their topic; null without a recorder's fact."),
        ("deliveries", _INT, "Number of deliveries: notifications times clients."),
        ("sent", _INT, "Deliveries that were sent."),
        ("acked", _INT, "Deliveries that were sent and acknowledged."),
        ("unacked", _INT, "Deliveries that were sent and not acknowledged."),
        ("unknown", _INT, "Deliveries whose acknowledgement may be in missing bytes."),
        ("unsent", _INT, "Deliveries that were published and never sent."),
        ("orphans", _INT, "Deliveries that were acknowledged, but whose send was not captured."),
        ("sends", _INT, "Sum of their sends."),
        ("latency_ns", _INT, "Sum of the times from first send to acknowledgement."),
    ),
    "error_minutes": _table(
        "Failed calls and faults by minute.",
        _MINUTE,
        ("what", _TEXT, "failed (a response other than ok), lost, unknown (calls), or fault."),
        ("protocol", _TEXT, "Name of the protocol; null for faults outside of streams."),
        ("target", _TEXT, "Target of the calls; null for faults."),
        ("code", _TEXT, "Status of the response, the cause, or the code of the fault."),
        ("errors", _INT, "Number of errors."),
    ),
    "talker_minutes": _table(
        "The twenty connections with the most bytes of each minute.",
        _MINUTE,
        ("rank", pa.int32(), "Rank by bytes, from 1."),
        ("protocol", _TEXT, "Name of the protocol."),
        ("connection", _INT, "Id of the connection, or of the tunnel."),
        ("messages", _INT, "Number of its messages."),
        ("bytes", _INT, "Bytes of their frames; those in a tunnel are also in its link's."),
    ),
}
"""The tables with fixed columns. `messages_schema` builds `messages`."""


def schema(table: str, protocols: Sequence[str] = ()) -> pa.Schema:
    """Return the schema of a table. `protocols` selects the structs of `messages`."""
    if table == "messages":
        from .structs import messages_schema

        return messages_schema(protocols)
    if table not in TABLES:
        raise ValueError(unknown("table", table, ["messages", *TABLES]))
    return TABLES[table]
