"""Validation of the arguments of a decoded comet command.

Implements 主题名称必须是以@开头 of seed 004, and rules 10, 11 and 23 of `docs/decisions/comet.md`.
A command with invalid arguments is answered with error 4 and the connection stays; a frame that
does not decode closes it.

    topics          1 to 256 characters, @ first, then letters, digits and / _ - @ $
    network, isp    the four numbers that the original defines
    client id       1 to 256 bytes, unless the caller passes its own validator
    message ids     any: an acknowledgement of an unknown id is no error
    every text      valid UTF-8
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wirelake.wire.errors import DecodeError

from ..hub_calls import MAX_CLIENT_ID_BYTES, is_client_topic
from .layout import (
    Auth,
    Command,
    Error,
    ErrorCode,
    Isp,
    MessageAck,
    NetworkType,
    ReportEnviron,
    Subscribe,
    Unsubscribe,
)

__all__ = [
    "BAD_ARGUMENTS_REPLY",
    "BAD_KEY_REPLY",
    "check_arguments",
    "is_id",
]

BAD_ARGUMENTS_REPLY: Final = Error(
    error_code=ErrorCode.BAD_ARGUMENTS, reason="message format illegal"
)
"""The reply to a command with invalid arguments; the text is the original's."""
BAD_KEY_REPLY: Final = Error(error_code=ErrorCode.BAD_ARGUMENTS, reason="bad key")
"""The reply to a failed key exchange, whatever failed, before the connection closes."""


def is_id(text: str) -> bool:
    """Return whether a client id is valid: the default validator."""
    return 0 < len(text.encode("utf-8", "surrogateescape")) <= MAX_CLIENT_ID_BYTES


def check_arguments(command: Command, *, valid_id: Callable[[str], bool] = is_id) -> None:
    """Raise DecodeError `bad_args` with the field's name if a command must be refused.

    Keys and tokens are not checked here, but by the session and the application.
    """
    match command:
        case Auth():
            _text("auth.client_id", command.client_id)
            _text("auth.token", command.token)
            if not valid_id(command.client_id):
                raise _bad("auth.client_id", "not an id")
            if not command.token:
                raise _bad("auth.token", "empty")
        case Subscribe():
            _topics("subscribe.topics", command.topics)
        case Unsubscribe():
            _topics("unsubscribe.topics", command.topics)
        case MessageAck():
            _text("message_ack.msg_ids", *command.msg_ids)
        case ReportEnviron():
            _environ(command)
        case _:
            pass


def _bad(field: str, why: str) -> DecodeError:
    return DecodeError("bad_args", field, None, why)


def _text(field: str, *texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _bad(field, "not valid UTF-8") from None


def _topics(field: str, topics: tuple[str, ...]) -> None:
    if not topics:
        raise _bad(field, "no topic")
    _text(field, *topics)
    for topic in topics:
        if not is_client_topic(topic):
            raise _bad(field, f"{topic[:40]!r} is not a topic")


def _environ(command: ReportEnviron) -> None:
    if command.network_type > max(NetworkType):
        raise _bad("report_environ.network_type", str(command.network_type))
    if command.isp > max(Isp):
        raise _bad("report_environ.isp", str(command.isp))
    _text("report_environ.phone_type", command.phone_type)
    _text("report_environ.extra", *command.extra)
