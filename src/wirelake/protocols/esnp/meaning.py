"""What ESNP messages mean: flags say the kind, rows the rest (section 3 of the rules)."""

from __future__ import annotations

from wirelake.wire.meaning import (
    Equal,
    HasRow,
    If,
    Join,
    Meaning,
    Named,
    RowField,
)

__all__ = ["MEANING"]

# Flags and kinds of address, as `layout.py` numbers them.
_TRACE_INFO = HasRow("flag", ("value", 2))
_RESP = HasRow("flag", ("value", 3))
_REQUEST = HasRow("flag", ("value", 4))
_INFO = HasRow("flag", ("value", 5))
_SERVICE = RowField("address", "value", ("kind", 30))
_OP = RowField("address", "value", ("kind", 20))

_LAST = Equal(RowField("seq_no", "current"), RowField("seq_no", "maximum"))
_ANSWER = If(HasRow("seq_no"), If(_LAST, "response", "part"), "response")
_OTHER = If(_REQUEST, "request", If(_INFO, "request", "event"))

MEANING = Meaning(
    kind=If(_TRACE_INFO, "trace", If(_RESP, _ANSWER, _OTHER)),
    name=If(
        _TRACE_INFO,
        "trace_info",
        If(
            _RESP,
            If(_INFO, "info_response", "response"),
            If(_REQUEST, "request", If(_INFO, "info", Named({}, "event"))),
        ),
    ),
    message_id=RowField("message_id", "value"),
    reply_to=RowField("source_message_id", "value"),
    target=Join("/", _SERVICE, _OP),
    status=If(_TRACE_INFO, None, If(_RESP, If(HasRow("error"), "error", "ok"))),
    reason=RowField("error", "value"),
    body_row=RowField("payload", "data"),
)
"""How the columns of `messages` are found."""
