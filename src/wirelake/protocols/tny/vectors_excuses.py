"""Alterations of tny vectors that no reader can notice, by name and with a reason.

`wirelake conform --mutate` changes a vector one leaf or one byte at a time, and the vector must
then fail. What is listed here is all that may pass.
"""

from __future__ import annotations

from typing import Any, Final

from ..expectation import (
    Alteration,
    Context,
    Excuse,
    Expect,
    Vector,
)
from .layout import Envelope
from .protocol import PROTOCOL, RELAY
from .vectors_connection import DIALECTS, Connection
from .vectors_views import (
    arguments_view,
    option_of,
    relay_view,
)

__all__ = ["EXCUSES"]


def _waste(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether only the contents of waste bytes differ."""
    if alteration.offset is None or raw["expect"].get("waste") is not True:
        return False
    return _plain(raw) == _plain(altered)


def _plain(raw: dict[str, Any]) -> tuple[Any, ...]:
    """Everything in a packet but its waste."""
    vector = Vector(raw)
    dialect = DIALECTS[raw["dialect"]][0]
    config = Expect(raw.get("config", {}), "config")
    opened = Connection(vector, config, dialect, Context(thorough=False)).open(0)
    body = opened.packet.body
    assert isinstance(body, Envelope)
    return (option_of(opened.packet), len(raw["hex"]), body.access_id, body.number, opened.plain)


def _surplus(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether the bits of a varint beyond its width differ, which upstream drops."""
    if alteration.offset is None or raw["dialect"] != "upstream" or "number" not in raw["expect"]:
        return False
    messages = []
    for one in (raw, altered):
        vector = Vector(one)
        connection = Connection(vector, Expect({}, "config"), "upstream", Context(thorough=False))
        opened = connection.open(0)
        messages.append((opened.message, option_of(opened.packet), len(vector.data)))
    return messages[0] == messages[1]


def _stream(raw: dict[str, Any], _: dict[str, Any], alteration: Alteration) -> bool:
    """Whether a byte belongs to what a stream's entry does not mention, or to a refused packet."""
    if alteration.offset is None or "stream" not in raw["expect"]:
        return False
    data, dialect, start = bytes.fromhex(raw["hex"]), DIALECTS[raw["dialect"]][0], 0
    for entry in raw["expect"]["stream"]:
        stop = PROTOCOL.scan(data, start, dialect=dialect)
        if start <= alteration.offset < stop:
            return "error" in entry or _part(data, start, alteration.offset) not in entry
        start = stop
    return False


def _unknown_field(raw: dict[str, Any], altered: dict[str, Any], alteration: Alteration) -> bool:
    """Whether two relay packets differ only in protobuf fields that have no name."""
    if alteration.offset is None or raw["expect"].get("packet") != "relay":
        return False
    dialect = DIALECTS[raw["dialect"]][0]
    one, other = (
        RELAY.decode(bytes.fromhex(v["hex"]), dialect=dialect).message for v in (raw, altered)
    )
    views = [arguments_view(packet.arguments) for packet in (one, other)]
    return bool(views[0].pop("unknown", "") and views[1].pop("unknown", "")) and (
        views[0] == views[1] and relay_view(one, 0) == relay_view(other, 0)
    )


def _part(data: bytes, start: int, offset: int) -> str:
    """The key that speaks of a byte of the packet that begins at `start`."""
    if offset < start + 9:
        return "option" if offset == start + 4 else "packet"
    pos = start + 9
    for name in ("access_id", "number"):
        while data[pos] >= 0x80:
            pos += 1
        pos += 1
        if offset < pos:
            return name
    return "message"


EXCUSES: Final = (
    Excuse("tny-waste-contents", "waste bytes and bits may hold anything", _waste),
    Excuse(
        "tny-surplus-varint-bits",
        "dialect upstream reads up to ten bytes of a varint and drops the bits beyond its width",
        _surplus,
    ),
    Excuse(
        "tny-stream-part-not-mentioned",
        "an entry of a stream lists some fields of its packet, and of a refused one only the error",
        _stream,
    ),
    Excuse(
        "tny-unknown-field-not-mentioned",
        "protobuf fields without a name are kept and written back, but a vector need not list them",
        _unknown_field,
    ),
)
"""Alterations of tny vectors that no reader can notice."""
