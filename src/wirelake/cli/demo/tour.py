"""What `wirelake demo --tour` shows: a few minutes' tour in a second, without a network.

It decodes sample messages of every protocol, encodes them back, meets bad bytes, and runs a
protocol that is declared in this file.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import click

from wirelake.wire import Protocol
from wirelake.wire.errors import DecodeError
from wirelake.wire.types import (
    I16,
    U8,
    Layout,
    Length16,
    Magic,
    String8,
)

from ..options.common import find_protocol

if TYPE_CHECKING:
    from wirelake.wire.model import Direction

__all__ = ["PROTOCOL", "SAMPLES", "Reading", "tour"]


class Sample(NamedTuple):
    """A message to show, and what to say about it."""

    protocol: str
    direction: Direction | None
    words: str
    hex: str


SAMPLES = (
    Sample(
        "comet",
        "c2s",
        "a phone signs on; its token is masked",
        "003a00001063303130303030313030303061626364002574353530653834"
        "30302d653239622d343164342d613731362d343436363535343430303030",
    ),
    Sample(
        "comet",
        "s2c",
        "a notification is pushed",
        "00230501001070303130303030313030306162636465000568656c6c6f0000014f0206207b",
    ),
    Sample(
        "tny",
        None,
        "a game client's request, its Message read as a stage of its own",
        "746e792e001400000001010104e9076400d2edffa987300568656c6c6f",
    ),
    Sample(
        "relay",
        None,
        "a gateway opens a link; the arguments are protobuf fields",
        "72706b250000000100000001d2f63f75800100000a0467616d6511e9030000000000001a056b65792d312007",
    ),
    Sample(
        "magline",
        "c2s",
        "a heartbeat with its authentication tag as an option",
        "7f660004000100120000000200000016001039e495eceb98b9d80efffc19afa7210c00000001",
    ),
    Sample(
        "esnp",
        None,
        "a call of test/add: rows up to an END row, values that say their type",
        "1e00000108170000052806616464170000063c08746573741100000811223344"
        "556677881500000402610502150000040262050400000000",
    ),
)
"""One message or two of each protocol."""

BROKEN = Sample("comet", "c2s", "a topic that is longer than its frame", "000603010009406e")


# -- a protocol of one's own -----------------------------------------------------------------


class Reading(Layout):
    """A thermometer reports."""

    mark: ClassVar[Annotated[bytes, Magic(b"TH")]]
    """How a frame begins."""
    length: ClassVar[Length16]
    """Bytes that follow."""
    station: String8
    """Where it hangs."""
    celsius: I16
    """Tenths of a degree."""
    battery: U8 = 100
    """Charge, in percent."""


PROTOCOL = Protocol(name="thermo", title="thermo: a protocol in one class", frame=Reading)
"""The protocol that the demo declares."""

_NEXT = """\
What to try next:
  wirelake protocols show comet.message      every field of a layout, with its meaning
  wirelake decode --help                     your own bytes: a tree, or JSON lines
  wirelake dissector -o wirelake.lua        the same protocols in Wireshark
  wirelake protocols reference tny           the reference page
  docs/guides/declare-a-protocol.md           a protocol of your own, as a package
"""


def tour() -> Iterator[str]:
    """All there is to see, line by line."""
    for part in (_samples, _bad_bytes, _own):
        yield from part()
    yield _NEXT.rstrip()


def _title(text: str) -> str:
    return click.style(f"== {text} ", bold=True) + "=" * max(4, 74 - len(text))


def _samples() -> Iterator[str]:
    for sample in SAMPLES:
        protocol = find_protocol(sample.protocol)
        yield _title(f"{protocol.name}: {sample.words}")
        data = bytes.fromhex(sample.hex)
        yield from _tree(protocol, data, sample.direction)
        message, _ = protocol.decode(data, direction=sample.direction)
        same = protocol.encode(message) == data
        yield f"encoded again: {len(data)} bytes, {'the same' if same else 'DIFFERENT'}"
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


def _bad_bytes() -> Iterator[str]:
    protocol = find_protocol(BROKEN.protocol)
    yield _title(f"bad bytes: {BROKEN.words}")
    data = bytes.fromhex(BROKEN.hex)
    yield from _tree(protocol, data, BROKEN.direction)
    try:
        protocol.decode(data, direction=BROKEN.direction)
    except DecodeError as error:
        place = f"field {error.field!r}, byte {error.offset}"
        yield f"the decoder's answer: code {error.code!r}, {place}"
    yield ""


def _own() -> Iterator[str]:
    yield _title("a protocol of one's own: this class is all there is to it")
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
