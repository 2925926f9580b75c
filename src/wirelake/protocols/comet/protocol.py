"""The protocol `comet`: layout, meaning, dialects and port.

The meaning is what tables, filters and the hub know about a command: every command is a request,
answered in order. All numbers in it come from the layout.
"""

from __future__ import annotations

from typing import get_args

from wirelake.wire import Protocol
from wirelake.wire.meaning import (
    At,
    Device,
    Each,
    First,
    KeySelector,
    Meaning,
    Named,
    SealMark,
    SignOn,
    Text,
    Values,
)

from .layout import CONTENT_OVERHEAD, SEALED_PREFIX, Dialect, Frame, Isp, NetworkType

__all__ = [
    "MEANING",
    "PROTOCOL",
]


# -- meaning ---------------------------------------------------------------------------------------


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
    sealed=("message.content", "message_list.messages[].content"),
    # The original's dialect seals without a mark: without a key, sealed content looks like any.
    seal_mark=SealMark(SEALED_PREFIX, CONTENT_OVERHEAD, unmarked_dialects=("hipush",)),
    key_selector=KeySelector("client_id", "auth.client_id"),
    sign_on=SignOn(confirmed_by=("auth_success",)),
    heartbeats=("heartbeat",),
    published_ms=("message.ts", "message_list.messages[].ts"),
    device=Device(
        "report_environ",
        network_type=Values(
            At("report_environ.network_type"),
            {int(each): each.name.lower() for each in NetworkType},
            digits=True,
        ),
        isp=Values(
            At("report_environ.isp"), {int(each): each.name.lower() for each in Isp}, digits=True
        ),
        phone_type=At("report_environ.phone_type"),
    ),
)
"""The meaning of comet commands."""


# -- protocol --------------------------------------------------------------------------------------


PROTOCOL = Protocol(
    name="comet",
    title="comet: mobile push",
    frame=Frame,
    dialects=get_args(Dialect),
    port=9620,
    binding="wirelake.protocols.comet.binding:BINDING",
    meaning=MEANING,
    opener="wirelake.protocols.comet.sealing:Opener",
)
"""comet, dialects seed and hipush."""
