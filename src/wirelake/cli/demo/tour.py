"""`wirelake demo --tour`: sample messages, without a hub.

It decodes messages of every protocol, encodes them again, shows how malformed bytes are reported,
and uses a protocol that is declared in this file.
"""

from __future__ import annotations

import inspect
import textwrap
import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import click

from wirelake.wire import Protocol
from wirelake.wire.errors import DecodeError
from wirelake.wire.types import I16, U8, Layout, Length16, Magic, String8

from ..options.common import find_protocol

if TYPE_CHECKING:
    from wirelake.wire.model import Direction

__all__ = ["PROTOCOL", "SAMPLES", "Reading", "tour"]


class Sample(NamedTuple):
    """A message to show."""

    protocol: str
    direction: Direction | None
    title: str
    data: bytes
    broken: bool
    """Whether it does not decode."""


def _load_samples() -> tuple[Sample, ...]:
    text = (resources.files(__package__ or "") / "samples.toml").read_text(encoding="utf-8")
    return tuple(
        Sample(
            each["protocol"],
            each.get("direction"),
            each["title"],
            bytes.fromhex(each["hex"]),
            each.get("broken", False),
        )
        for each in tomllib.loads(text)["sample"]
    )


SAMPLES = _load_samples()
"""Messages of every built-in protocol."""


# -- a custom protocol -----------------------------------------------------------------------


class Reading(Layout):
    """A report of a thermometer."""

    mark: ClassVar[Annotated[bytes, Magic(b"TH")]]
    """First bytes of a frame."""
    length: ClassVar[Length16]
    """Number of bytes that follow."""
    station: String8
    """Location of the thermometer."""
    celsius: I16
    """Tenths of a degree."""
    battery: U8 = 100
    """Charge, in percent."""


PROTOCOL = Protocol(name="thermo", title="thermo: a protocol in one class", frame=Reading)
"""The protocol of the demo."""

_NEXT = """\
What to try next:
  wirelake protocols show comet.message      every field of a layout, with its description
  wirelake decode --help                     decode your own bytes, as a tree or JSON lines
  wirelake dissector -o wirelake.lua         a Wireshark dissector for all protocols
  wirelake protocols reference tny           the reference page
  docs/guides/declare-a-protocol.md          declare your own protocol
"""


def tour() -> Iterator[str]:
    """Return the tour, line by line."""
    for part in (_samples, _malformed, _custom):
        yield from part()
    yield _NEXT.rstrip()


def _title(text: str) -> str:
    return click.style(f"== {text} ", bold=True) + "=" * max(4, 74 - len(text))


def _samples() -> Iterator[str]:
    for sample in (each for each in SAMPLES if not each.broken):
        protocol = find_protocol(sample.protocol)
        yield _title(f"{protocol.name}: {sample.title}")
        yield from _tree(protocol, sample.data, sample.direction)
        message, _ = protocol.decode(sample.data, direction=sample.direction)
        same = protocol.encode(message) == sample.data
        yield f"encoded again: {len(sample.data)} bytes, {'the same' if same else 'DIFFERENT'}"
        yield ""


def _tree(protocol: Protocol, data: bytes, direction: Direction | None) -> Iterator[str]:
    from wirelake.wire.views.spans import trace

    from ..output.tree import tree_lines

    layout = protocol.model()
    root = trace(layout, data, direction=direction)
    content = root.find("packet.body.content")
    if content is not None and isinstance(content.value, bytes):
        root = trace(layout, data, direction=direction, stages={"content": content.value})
    yield from tree_lines(root, data)


def _malformed() -> Iterator[str]:
    for sample in (each for each in SAMPLES if each.broken):
        protocol = find_protocol(sample.protocol)
        yield _title(f"malformed bytes: {sample.title}")
        yield from _tree(protocol, sample.data, sample.direction)
        try:
            protocol.decode(sample.data, direction=sample.direction)
        except DecodeError as error:
            place = f"field {error.field!r}, byte {error.offset}"
            yield f"decode error: code {error.code!r}, {place}"
        yield ""


def _custom() -> Iterator[str]:
    yield _title("a custom protocol, declared by one class")
    yield textwrap.indent(inspect.getsource(Reading).rstrip(), "    ")
    yield ""
    reading: Any = Reading(station="roof", celsius=-45)
    yield f">>> data = PROTOCOL.encode({reading!r})"
    data = PROTOCOL.encode(reading)
    yield f">>> data.hex()  # {data.hex()}"
    yield ">>> PROTOCOL.decode(data).message"
    yield repr(PROTOCOL.decode(data).message)
    yield from _tree(PROTOCOL, data, None)
    yield ""
