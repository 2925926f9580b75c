"""What comet messages mean: every command is a request, answered in order."""

from __future__ import annotations

from wirelake.wire.meaning import (
    At,
    Each,
    First,
    Meaning,
    Named,
    Text,
)

__all__ = ["MEANING"]

_COMMANDS = (
    "auth",
    "exchange_key",
    "get_topic_list",
    "subscribe",
    "unsubscribe",
    "get_message_list",
    "heartbeat",
    "message_ack",
    "report_environ",
)
_REPLIES = ("ok", "error", "auth_success", "topic_list", "message_list")

MEANING = Meaning(
    kind=Named(
        {
            **dict.fromkeys(_COMMANDS, "request"),
            **dict.fromkeys(_REPLIES, "response"),
            "message": "push",
        }
    ),
    target=Named({name: name for name in _COMMANDS}),
    status=First(
        Text(At("error.error_code")),
        Named({name: "ok" for name in _REPLIES if name != "error"}),
    ),
    reason=At("error.reason"),
    client=At("auth.client_id"),
    ids=(
        Each("message.msg_id"),
        Each("message_list.messages[].msg_id"),
        Each("message_ack.msg_ids[]"),
    ),
    body=("message.content",),
    sealed=("message.content",),
)
"""How the columns of `messages` are found."""
