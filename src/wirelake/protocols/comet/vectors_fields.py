"""Fields of comet commands as test vectors write them, for `vectors.py`.

A field `x` is given as itself, as `x_hex` (its bytes), `x_len` (how many bytes) or `x_kind` (what
sort of key it is); a long list as `count`, `first` and `last`. Each field must be given somehow.
"""

from __future__ import annotations

from typing import Any, Final

from ..expectation import Expect
from . import layout
from .sealing import key_kind

__all__ = ["COMMANDS", "compare_fields", "fields_of", "reply_view"]

COMMANDS: Final[dict[type, tuple[str, int]]] = {
    layout.Auth: ("auth", 0),
    layout.ExchangeKey: ("exchange_key", 1),
    layout.GetTopicList: ("get_topic_list", 2),
    layout.Subscribe: ("subscribe", 3),
    layout.Unsubscribe: ("unsubscribe", 4),
    layout.GetMessageList: ("get_message_list", 5),
    layout.Heartbeat: ("heartbeat", 6),
    layout.MessageAck: ("message_ack", 7),
    layout.ReportEnviron: ("report_environ", 8),
    layout.Ok: ("ok", 0),
    layout.Error: ("error", 1),
    layout.AuthSuccess: ("auth_success", 2),
    layout.TopicList: ("topic_list", 3),
    layout.MessageList: ("message_list", 4),
    layout.Notification: ("message", 5),
}
"""Name and type number of every command."""

_HEX_FIELDS: Final = ("secret_key", "encrypt_key")
_LIST_KEYS: Final = ("count", "first", "last")


def fields_of(message: Any, dialect: str) -> dict[str, Any]:
    """The fields of a command; `job_id` exists in dialect hipush only."""
    view: dict[str, Any] = {}
    for name in message.__struct_fields__:
        if name == "job_id" and dialect != "hipush":
            continue
        value = getattr(message, name)
        if isinstance(value, tuple):
            value = [
                fields_of(item, dialect) if isinstance(item, layout.Notification) else item
                for item in value
            ]
        view[name] = value
    return view


def compare_fields(expect: Expect, view: dict[str, Any]) -> None:
    """Compares every way in which the vector gives a field."""
    for name, value in view.items():
        given = [_given(expect, name, value)]
        if isinstance(value, list):
            given.append(_ends(expect, value))
        if not any(given):
            raise expect.fail(name, "the vector does not mention it")
    expect.done()


def _given(expect: Expect, name: str, value: Any) -> bool:
    """Compares the forms of one field; whether there was any."""
    forms = [key for key in (name, f"{name}_hex", f"{name}_len", f"{name}_kind") if key in expect]
    if name in expect:
        _compare(expect, name, value)
    expect.computed(f"{name}_hex", lambda: _each(value, lambda item: _octets(item).hex()))
    expect.computed(f"{name}_len", lambda: _each(value, lambda item: len(_octets(item))))
    expect.computed(f"{name}_kind", lambda: key_kind(_octets(value)))
    return bool(forms)


def _compare(expect: Expect, name: str, value: Any) -> None:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        entries = expect.children(name)
        if len(entries) != len(value):
            raise expect.fail(name, f"wanted {len(entries)} items, got {len(value)}")
        for entry, item in zip(entries, value, strict=True):
            compare_fields(entry, item)
    else:
        expect.equal(name, _each(value, lambda item: _text(name, item)))


def _ends(expect: Expect, value: list[Any]) -> bool:
    """A list that is given by its size and its ends."""
    if not all(key in expect for key in _LIST_KEYS):
        return False
    expect.equal("count", len(value))
    for key, index in (("first", 0), ("last", -1)):
        item = value[index] if value else None
        if isinstance(item, dict):
            compare_fields(expect.child(key), item)
        else:
            expect.equal(key, item)
    return True


def _each(value: Any, make: Any) -> Any:
    return [make(item) for item in value] if isinstance(value, list) else make(value)


def _octets(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogateescape")


def _text(name: str, value: Any) -> Any:
    """A field as JSON has it: keys are hexadecimal, content is text if it can be."""
    if not isinstance(value, bytes):
        return value
    if name in _HEX_FIELDS:
        return value.hex()
    return value.decode("utf-8", "surrogateescape")


def reply_view(reply: layout.Error) -> dict[str, Any]:
    """An error as the `reply` of a vector."""
    return {"command": "error", "error_code": int(reply.error_code), "reason": reply.reason}
