"""What a dissector shows of every message, whatever its protocol: fields below `wirelake.`.

They are the columns of `messages` that a protocol's meaning determines, the links between requests
and responses, and what is wrong. All protocols share them, so that one filter finds the calls of
all: `wirelake.latency > 0.05`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ._lua_fields import quote
from ._lua_meaning import COLUMNS

__all__ = ["EXPERTS", "SHARED", "SHARED_NAMES", "Expert", "Shared", "column_lines"]


class Shared(NamedTuple):
    """A field that all protocols share."""

    name: str
    form: str
    """The constructor of `ProtoField`."""
    label: str
    doc: str
    arguments: tuple[str, ...] = ()


class Expert(NamedTuple):
    """An expert item that all protocols share."""

    name: str
    doc: str
    group: str
    severity: str


SHARED: Final = (
    Shared("kind", "string", "Kind", "Kind of the message, as in the table messages"),
    Shared("name", "string", "Name", "Name of the message"),
    Shared("message_id", "int64", "Message id", "Id of the message", ("base.DEC",)),
    Shared("reply_to", "int64", "Reply to", "Id of the request that this answers", ("base.DEC",)),
    Shared("target", "string", "Target", "What a request calls"),
    Shared("status", "string", "Status", "Status of a response; ok if it succeeded"),
    Shared("reason", "string", "Reason", "Reason of a failure or of a close, as text"),
    Shared(
        "request_in",
        "framenum",
        "Request in",
        "Packet with the request of this response",
        ("base.NONE", "frametype.REQUEST"),
    ),
    Shared(
        "response_in",
        "framenum",
        "Response in",
        "Packet with the response to this request",
        ("base.NONE", "frametype.RESPONSE"),
    ),
    Shared("latency", "relative_time", "Latency", "Time from the request to its response"),
    Shared("carried", "string", "Carried message", "Protocol of the message in a tunnel"),
    Shared("fault", "string", "Fault", "Code of what is wrong, as in the table faults"),
)
"""Fields below `wirelake.`, in the order in which they are shown."""

EXPERTS: Final = (
    Expert("failed", "The response has a status other than ok", "RESPONSE_CODE", "NOTE"),
    Expert("unanswered", "No response was found", "SEQUENCE", "NOTE"),
    Expert("orphan", "A response whose request was not found", "SEQUENCE", "NOTE"),
    Expert("duplicate", "A further response to an answered request", "SEQUENCE", "NOTE"),
    Expert("sealed", "Encrypted content: not shown without a key", "DECRYPTION", "CHAT"),
    Expert("gap", "Bytes of the stream are missing before this message", "SEQUENCE", "WARN"),
)
"""Expert items below `wirelake.`."""
SHARED_NAMES: Final = frozenset(each.name for each in (*SHARED, *EXPERTS))
"""Names below `wirelake.` that no protocol may have."""


def column_lines() -> list[str]:
    """Return the Lua that declares them, once for all scripts that are loaded."""
    lines = [
        "-- Fields and expert items that all protocols share. Other scripts may have made them.",
        'local SHARED = package.loaded["wirelake.shared"]',
        "if not SHARED then",
        '  SHARED = { proto = Proto("wirelake", "Wirelake"), fields = {}, experts = {} }',
    ]
    for each in SHARED:
        parts = [quote(f"wirelake.{each.name}"), quote(each.label), *each.arguments]
        if each.form == "int64":
            parts += ["nil", "nil"]
        elif each.form == "framenum":
            parts.append("nil")
        parts.append(quote(each.doc))
        lines.append(f"  SHARED.fields.{each.name} = ProtoField.{each.form}({', '.join(parts)})")
    for expert in EXPERTS:
        made = f'ProtoExpert.new("wirelake.{expert.name}", {quote(expert.doc)},'
        lines += [
            f"  SHARED.experts.{expert.name} = {made}",
            f"    expert.group.{expert.group}, expert.severity.{expert.severity})",
        ]
    names = ", ".join(map(quote, COLUMNS))
    return [
        *lines,
        "  SHARED.proto.fields, SHARED.proto.experts = SHARED.fields, SHARED.experts",
        '  package.loaded["wirelake.shared"] = SHARED',
        "end",
        f"local COLUMNS = {{ {names} }}",
        "",
    ]
