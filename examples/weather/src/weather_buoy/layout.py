"""Weather buoys: what a buoy at sea and its harbour tell each other. Invented for Wirelake."""

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire import Layout, Protocol
from wirelake.wire import types as t
from wirelake.wire.meaning import Meaning, Named

Sky = IntEnum("Sky", ["CLEAR", "CLOUDS", "RAIN", "FOG", "STORM"])


class Hello(Layout):
    """The first message of either side."""

    name: t.String8
    """The name of the buoy or the harbour."""
    key: t.Secret[t.Bytes8]
    """The key that proves the name."""


class Report(Layout):
    """The weather at the buoy."""

    sky: Annotated[t.Bits3, t.Names(Sky)]
    """The sky, as its camera sees it."""
    battery: t.Bits4
    """Charge left, in sixteenths."""
    has_wave: ClassVar[t.Present]
    """Whether the waves were measured."""
    air: t.VarI32
    """Temperature, in hundredths of a degree Celsius."""
    gusts: t.List8[t.VarU16]
    """The last gusts of wind, in centimetres per second, newest first."""
    wave: Annotated[t.F32 | None, t.When("has_wave")] = None
    """Height of the highest wave, in metres."""


class Order(Layout):
    """A command to the buoy."""

    lamp: t.Boolean
    """Whether to turn the lamp on."""


class Frame(Layout):
    """The frame of every message."""

    magic: ClassVar[Annotated[bytes, t.Magic(b"AHOY")]]
    """The first four bytes."""
    length: ClassVar[t.Length16]
    """Bytes that follow."""
    type: ClassVar[t.Tag8]
    """The type of the message."""
    body: Annotated[Hello | Report | Order, t.Choice({1: Hello}, c2s={2: Report}, s2c={2: Order})]
    """The message."""


MEANING = Meaning(
    kind=Named({"hello": "handshake", "report": "request", "order": "response"}),
    target=Named({"report": "report"}),
    status=Named({"order": "ok"}),
)

PROTOCOL = Protocol(
    name="weather", title="weather: buoys and harbours", frame=Frame, port=9630, meaning=MEANING
)
