"""What magline frames mean."""

from __future__ import annotations

from wirelake.wire.meaning import (
    At,
    First,
    If,
    Is,
    Meaning,
    Named,
    Text,
    Values,
)

__all__ = ["MEANING"]

_REASONS = {
    0: "normal",
    1: "protocol",
    2: "handshake",
    3: "auth",
    4: "idle",
    5: "shutdown",
    6: "replaced",
    7: "resume",
    8: "rekey",
    9: "busy",
    10: "internal",
}
_OF_CONNECTION = 0
_BUSINESS = ("req", "rep", "psh")

MEANING = Meaning(
    kind=First(
        Named(
            {
                "syn": "handshake",
                "ack": "handshake",
                "req": "request",
                "rep": "response",
                "psh": "push",
                "pin": "heartbeat",
                "pon": "heartbeat",
                "fin": "control",
            }
        ),
        If(Is(At("err.business_cmd"), _OF_CONNECTION), "control", "response"),
    ),
    message_id=At("seq"),
    reply_to=At("reply_to"),
    target=First(*(Text(At(f"{name}.business_cmd")) for name in (*_BUSINESS, "err"))),
    status=First(Named({"rep": "ok"}), Text(At("err.error_number"))),
    reason=Values(At("fin.reason_number"), _REASONS, digits=True),
    body=tuple(f"{name}.data" for name in _BUSINESS),
    sealed=tuple(f"{name}.data" for name in _BUSINESS),
)
"""How the columns of `messages` are found."""
