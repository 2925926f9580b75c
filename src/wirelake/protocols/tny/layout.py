"""tny, game server messages, and RelayPack, its gateway links (seed 002).

Fixed integers are little-endian here, unlike in the other documents. Varints are plain LEB128 of
the two's complement. A packet is an envelope; what it carries may be checked, encrypted and
padded (`transform.py`), and is a `Message` once that is undone.

Dialect `seed` follows the document; dialect `upstream` follows the original software, which real
peers use: ticks without a length, a list of headers, varints that drop surplus bits, and two ids of
TUNNEL_CONNECTED swapped. See `docs/decisions/tny.md`, section 8.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar, Literal

from wirelake.wire.types import (
    I32LE,
    I64LE,
    Bits1,
    Bits2,
    Bits3,
    Blob,
    ByDialect,
    Choice,
    Counted,
    Flag,
    Int,
    Layout,
    LengthMark,
    Magic,
    Names,
    Number,
    Only,
    PbBool,
    PbBytes,
    PbFixed64,
    PbInt32,
    PbInt64,
    PbString,
    Present,
    Protobuf,
    Rest,
    Secret,
    Sizes,
    Stage,
    TagBits1,
    TagBits2,
    TagBits4,
    ToEnd,
    Varint,
    When,
)

Dialect = Literal["seed", "upstream"]
"""`seed` is the document's; `upstream` is that of the original software."""


class PacketType(IntEnum):
    """Types of packets; 3 is undefined."""

    MESSAGE = 0
    PING = 1
    PONG = 2


class Mode(IntEnum):
    """Kinds of messages; 3 is undefined."""

    REQUEST = 0
    RESPONSE = 1
    PUSH = 2


class RelayType(IntEnum):
    """mark and subId of a relay packet, as one number."""

    LINK_OPEN = 0x01
    LINK_OPENED = 0x02
    LINK_CLOSE = 0x03
    LINK_PING = 0x05
    LINK_PONG = 0x06
    TUNNEL_CONNECT = 0x11
    TUNNEL_CONNECTED = 0x12
    TUNNEL_DISCONNECT = 0x13
    TUNNEL_SWITCH_LINK = 0x14
    TUNNEL_RELAY = 0x15


class HeaderType(IntEnum):
    """The header types of the original."""

    RPC_FORWARD = 100
    RPC_ORIGINAL_MESSAGE_ID = 101
    RPC_TRACING = 102


# Bits beyond the width are refused in seed and dropped in upstream, where negative numbers may come
# in the ten bytes that protobuf writes (section 1).
_VAR32 = ByDialect(Varint(32, "twos"), {"upstream": Varint(32, "twos", loose=True)})
_VAR64 = ByDialect(Varint(64, "twos"), {"upstream": Varint(64, "twos", loose=True)})
_BLOB = ByDialect(Blob(Varint(32, "twos")), {"upstream": Blob(Varint(32, "twos", loose=True))})

VarInt32 = Annotated[int, _VAR32]
"""VarInt32 of the document."""
VarInt64 = Annotated[int, _VAR64]
"""VarInt64 of the document."""
VarBytes = Annotated[bytes, _BLOB]
"""A VarInt32 length and that many bytes."""

SUCCESS = 100
"""The result code of success."""


class Message(Layout):
    """A request, a response or a push."""

    section: ClassVar[str] = "Message编码"

    id: VarInt64
    """MessageId: per session, starts at 1, survives a reconnect."""
    reserved: Bits1 = 0
    """The bit of Option that the document sets to zero."""
    has_forward_header: ClassVar[Present]
    """ExistForwardHeader."""
    line: Bits3 = 0
    """The line; a response echoes its request's."""
    has_body: ClassVar[Present]
    """ExistBody."""
    # Closed: the original delivers mode 3 as a message without a mode (sections 2 and 9).
    mode: Annotated[Bits2, Names(Mode, closed=True)] = Mode.REQUEST
    """Request, response or push."""
    protocol: VarInt32 = 0
    """Protocol number: which call or push this is."""
    code: VarInt32 = SUCCESS
    """ResultCode: 100 is success."""
    to_message: VarInt64 = 0
    """The id of the request that a response answers, else 0."""
    time: VarInt64 = 0
    """When it was sent, in milliseconds since 1970."""
    # One flag bit, two forms: one opaque header in the document, a counted list in the original
    # (section 8.2).
    forward_header: Annotated[VarBytes | None, When("has_forward_header"), Only("seed")] = None
    """Where the message comes from and goes to; opaque bytes."""
    # Kept as bytes and decoded in a second step (`message.py`), so that an invalid header affects
    # no other (section 2).
    headers: Annotated[
        tuple[VarBytes, ...] | None,
        When("has_forward_header"),
        Counted(_VAR32),
        Only("upstream"),
    ] = None
    """Headers, each a little-endian 32-bit type and a protobuf message."""
    body: Annotated[VarBytes | None, When("has_body")] = None
    """The arguments or the result; empty is not absent."""


class Envelope(Layout):
    """The payload of a message packet."""

    section: ClassVar[str] = "PayLoad编码"

    length: ClassVar[
        Annotated[
            int,
            LengthMark(Int(4, order="little"), limit=1 << 20, limits=(("upstream", 0xFFFF),)),
        ]
    ]
    """PayloadLength: bytes that follow."""
    access_id: VarInt64
    """Who sends; the first packet's fixes the keys of its direction."""
    number: VarInt32
    """Counts packets per connection and direction, from 1."""
    # Bytes, because the transforms need the keys and the packet code of the connection, which a
    # codec does not have (section 4, `transform.py`).
    content: Annotated[Rest, Stage(Message)]
    """The Message, with waste bytes around it, encrypted, and followed by a check code, as the
    option bits say."""


# Ticks have nine bytes in the document and five in the original, which ends the connection when it
# reads nine (section 8.1).
class Ping(Layout):
    """A heartbeat, answered with a pong."""

    section: ClassVar[str] = "网络包封包, Type 1"

    length: ClassVar[Annotated[bytes, Magic(b"\0\0\0\0", code="bad_length"), Only("seed")]]
    """PayloadLength: nothing follows. The original leaves it out."""


class Pong(Layout):
    """The answer to a ping."""

    section: ClassVar[str] = "网络包封包, Type 2"

    length: ClassVar[Annotated[bytes, Magic(b"\0\0\0\0", code="bad_length"), Only("seed")]]
    """PayloadLength: nothing follows. The original leaves it out."""


class Packet(Layout, kw_only=True):
    """A packet of a tny connection."""

    section: ClassVar[str] = "网络包封包"

    head: ClassVar[Annotated[bytes, Magic(b"tny.")]]
    """Head."""
    reserved: Bits3 = 0
    """The bits of Option that the document sets to zero."""
    waste: Flag = False
    """WasteBytesOption: waste bytes surround the message."""
    encrypt: Flag = False
    """EncryptOption: the message is encrypted."""
    verify: Flag = False
    """VerifyOption: a check code follows the message."""
    type: ClassVar[Annotated[TagBits2, Names(PacketType)]]
    """Message, ping or pong."""
    body: Annotated[
        Envelope | Ping | Pong,
        Choice({PacketType.MESSAGE: Envelope, PacketType.PING: Ping, PacketType.PONG: Pong}),
    ]
    """What it is."""


# -- headers of the upstream dialect ---------------------------------------------------------


class AccessPoint(Protobuf):
    """The id of an access point: service type * 10^15 + server id * 10^4 + index."""

    id: Annotated[PbInt64, Number(1)] = 0
    """The number."""


class Point(Protobuf):
    """A service, and perhaps one server of it."""

    service_type_id: Annotated[PbInt32, Number(1)] = 0
    """Which service."""
    access_id: Annotated[AccessPoint | None, Number(2)] = None
    """Which server."""


class Contact(Protobuf):
    """A party of a message."""

    contact_id: Annotated[PbInt64, Number(1)] = 0
    """Who."""
    contact_type_id: Annotated[PbInt32, Number(2)] = 0
    """0 anonymous, 1 user."""


# Field 6 was a repeated list when the document was written (section 2).
class ForwardHeader(Protobuf):
    """Rpc-Forward, header 100."""

    from_: Annotated[Point | None, Number(2)] = None
    """The service that sent it."""
    sender: Annotated[Contact | None, Number(3)] = None
    """Who sent it."""
    to: Annotated[Point | None, Number(4)] = None
    """The service that it goes to."""
    receiver: Annotated[Contact | None, Number(5)] = None
    """Who it goes to."""
    from_forwarder: Annotated[Point | None, Number(6)] = None
    """The node that forwarded it here."""
    to_forwarder: Annotated[Point | None, Number(7)] = None
    """The node that forwards it on."""


class OriginalMessageIdHeader(Protobuf):
    """Rpc-Original-Message-Id, header 101."""

    message_id: Annotated[PbInt64, Number(1)] = 0
    """The id that the response must answer."""


class Attribute(Protobuf):
    """One entry of a map from text to text."""

    key: Annotated[PbString, Number(1)] = ""
    """Its name."""
    value: Annotated[PbString, Number(2)] = ""
    """Its value."""


class TracingHeader(Protobuf):
    """Rpc-Tracing, header 102."""

    attributes: Annotated[tuple[Attribute, ...], ToEnd(), Number(1)] = ()
    """What the tracer added."""


# -- RelayPack -------------------------------------------------------------------------------


class LinkOpen(Protobuf):
    """A gateway opens a link."""

    service: Annotated[PbString, Number(1)] = ""
    """The gateway's service name."""
    instance: Annotated[PbFixed64, Number(2)] = 0
    """The gateway's instance id."""
    key: Annotated[Secret[PbString], Number(3)] = ""
    """Random per connection; makes the link's id unique."""
    service_type: Annotated[PbInt32 | None, Number(4)] = None
    """The gateway's kind; absent in old versions."""


class LinkOpened(Protobuf):
    """The server's answer to LINK_OPEN."""

    result: Annotated[PbBool, Number(1)] = False
    """Whether the link is open."""


# The original reads no arguments of the next three packets, and ignores bytes that follow
# (section 8.11).
class LinkClose(Protobuf):
    """One side closes the link."""

    unparsed: ClassVar[tuple[str, ...]] = ("upstream",)


class LinkPing(Protobuf):
    """Heartbeat of a link."""

    unparsed: ClassVar[tuple[str, ...]] = ("upstream",)


class LinkPong(Protobuf):
    """Answer to a heartbeat."""

    unparsed: ClassVar[tuple[str, ...]] = ("upstream",)


# The original writes 10 and 11 before 1 and 2, and so do we; any order is read (section 5).
class TunnelConnect(Protobuf):
    """A user connected to the gateway: open a virtual channel for it."""

    # The original cuts an IPv6 address to its first four bytes (section 9).
    ip: Annotated[PbBytes, Number(10), Sizes(0, 4, 16), Sizes(0, 4, dialect="upstream")] = b""
    """The user's address, 4 or 16 bytes."""
    port: Annotated[PbInt32, Number(11)] = 0
    """The user's port."""
    instance_id: Annotated[PbFixed64, Number(1)] = 0
    """The gateway's instance."""
    tunnel_id: Annotated[PbFixed64, Number(2)] = 0
    """The gateway's id of the user connection."""


class TunnelConnected(Protobuf):
    """The server's answer to TUNNEL_CONNECT."""

    result: Annotated[PbBool, Number(10)] = False
    """Whether the tunnel is open."""
    # The original swaps the two ids in this packet (section 8.7).
    instance_id: Annotated[PbFixed64, Number(1, (("upstream", 2),))] = 0
    """The gateway's instance."""
    tunnel_id: Annotated[PbFixed64, Number(2, (("upstream", 1),))] = 0
    """The gateway's id of the user connection."""


class TunnelDisconnect(Protobuf):
    """One end of a tunnel closed."""

    instance_id: Annotated[PbFixed64, Number(1)] = 0
    """The gateway's instance."""
    tunnel_id: Annotated[PbFixed64, Number(2)] = 0
    """The gateway's id of the user connection."""


class TunnelSwitchLink(Protobuf):
    """The tunnel continues over this link, because its own is lost."""

    instance_id: Annotated[PbFixed64, Number(1)] = 0
    """The gateway's instance."""
    tunnel_id: Annotated[PbFixed64, Number(2)] = 0
    """The gateway's id of the user connection."""


# The document says that all arguments are protobuf, but gives no form that could carry a Message,
# so this is the original's layout: the only deliberate difference from a document (section 5).
class TunnelRelay(Layout):
    """A message of a tunnel. The one packet whose arguments are not protobuf."""

    instance_id: I64LE
    """The gateway's instance."""
    tunnel_id: I64LE
    """The gateway's id of the user connection."""
    message: Message
    """The message, without envelope."""


Arguments = (
    LinkOpen
    | LinkOpened
    | LinkClose
    | LinkPing
    | LinkPong
    | TunnelConnect
    | TunnelConnected
    | TunnelDisconnect
    | TunnelSwitchLink
    | TunnelRelay
)


class RelayPacket(Layout, kw_only=True):
    """A packet of a link between gateway and server."""

    section: ClassVar[str] = "RelayPack 封包"

    head: ClassVar[Annotated[bytes, Magic(b"rpk")]]
    """Head."""
    # At least PackId, Option and Time. The original has no maximum (section 5).
    length: ClassVar[Annotated[int, LengthMark(Int(4, order="little"), minimum=13, limit=1 << 21)]]
    """PacketLength: bytes that follow."""
    id: I32LE = 0
    """PackId: counts packets per link and direction; informative."""
    reserved: Bits3 = 0
    """The bits of Option that the document sets to zero; ignored."""
    mark: ClassVar[TagBits1]
    """0 for the link itself, 1 for a tunnel on it."""
    sub_id: ClassVar[Annotated[TagBits4, Names(RelayType)]]
    """Which packet of that kind."""
    time: I64LE = 0
    """When it was sent, in milliseconds since 1970."""
    arguments: Annotated[
        Arguments,
        Choice(
            {
                RelayType.LINK_OPEN: LinkOpen,
                RelayType.LINK_OPENED: LinkOpened,
                RelayType.LINK_CLOSE: LinkClose,
                RelayType.LINK_PING: LinkPing,
                RelayType.LINK_PONG: LinkPong,
                RelayType.TUNNEL_CONNECT: TunnelConnect,
                RelayType.TUNNEL_CONNECTED: TunnelConnected,
                RelayType.TUNNEL_DISCONNECT: TunnelDisconnect,
                RelayType.TUNNEL_SWITCH_LINK: TunnelSwitchLink,
                RelayType.TUNNEL_RELAY: TunnelRelay,
            }
        ),
    ]
    """PacketArguments."""
