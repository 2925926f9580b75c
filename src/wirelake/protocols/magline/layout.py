"""magline, encrypted long-lived connections: the head, nine commands, options (seed 003).

The head has 16 bytes, big-endian. Options sit between head and body, one for each set bit of Head
Optional. Keys and sealing are in `handshake.py` and `records.py`; here `sealed_sid`, `hmac` and
`data` are bytes. See `docs/decisions/magline.md`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from wirelake.wire.model import Direction
from wirelake.wire.types import (
    U32,
    Bytes16Fixed,
    Bytes32Fixed,
    Case,
    Choice,
    Fixed,
    Int,
    Layout,
    LengthMark,
    Magic,
    Names,
    Option,
    OptionBitsMark,
    OptionsLengthMark,
    Rest,
    TagConstMark,
    TagMark,
    UnknownOptions,
)

CONTROL = 0x7F
"""Magic of SYN, ACK, ERR, PIN, PON and FIN."""
DATA = 0x7E
"""Magic of REQ, REP and PSH."""
VERSION = 0x66
"""102; 1 and 101 are an older, incompatible protocol."""
HANDSHAKE_LIMIT = 512
"""No frame before the end of the handshake is larger."""
FRAME_LIMIT = 1 << 20
"""Message Length that a reader accepts by default."""


HEAD_BYTES = 16
"""Size of the head, up to the options."""
# The document draws four rows of 32 bits for HMAC (rule 6).
TAG_BYTES = 16
"""Size of every tag: HMAC-SHA256, cut."""
AUTH_OPTION = 0x0001
"""The bit of Head Optional for a control frame's tag."""
# A reSYN is a SYN with this option: the document allows no new command for it (rule 13).
RESUME_OPTION = 0x0100
"""The bit of Head Optional for the session id and binder of a reSYN."""
CONNECTION_CMD = 0
"""The Business CMD of an ERR about the connection itself."""
APPLICATION_NUMBERS = 0x10000
"""Error numbers and reasons from here on belong to the application."""

SEQ_BYTES = 4
"""Size of Seq."""
IV_BYTES = 12
"""Size of an IV; Seq is combined with its last bytes."""
BLOCK_NUMBER_BYTES = 4
"""The rest of a counter block of AES-CTR: it counts the blocks of one frame."""


class Cmd(IntEnum):
    """The nine commands."""

    SYN = 1
    ACK = 2
    ERR = 3
    PIN = 4
    PON = 5
    REQ = 6
    REP = 7
    PSH = 8
    FIN = 9


class ErrorNumber(IntEnum):
    """Why something failed; 0x10000 and above belong to the application."""

    BAD_FRAME = 1
    BAD_VERSION = 2
    UNKNOWN_CMD = 3
    BAD_OPTION = 4
    TOO_LARGE = 5
    BAD_STATE = 6
    HANDSHAKE = 7
    SESSION_UNKNOWN = 8
    BAD_RECORD = 9
    TIMEOUT = 10
    BUSY = 11
    ORDER_CMD = 12
    AUTH = 13
    NO_ROUTE = 14
    BUSINESS = 15
    INTERNAL = 16


class Reason(IntEnum):
    """Why a connection ends; 0x10000 and above belong to the application."""

    NORMAL = 0
    PROTOCOL = 1
    HANDSHAKE = 2
    AUTH = 3
    IDLE = 4
    SHUTDOWN = 5
    REPLACED = 6
    RESUME = 7
    REKEY = 8
    BUSY = 9
    INTERNAL = 10


class Resume(Layout):
    """Which session a SYN resumes, and the proof."""

    sid: Bytes16Fixed
    """Session id."""
    binder: Bytes16Fixed
    """HMAC of the SYN frame under a key that only the two ends of the session have."""


class Syn(Layout):
    """A client opens a connection, or resumes a session."""

    section: ClassVar[str] = "4.1 SYN"

    random: Bytes32Fixed
    """Custom Random."""
    public_key: Bytes32Fixed
    """Custom Public Key: X25519, fresh for each connection."""


class Ack(Layout):
    """The server agrees."""

    section: ClassVar[str] = "4.2 ACK"

    random: Bytes32Fixed
    """Server Random."""
    public_key: Bytes32Fixed
    """Server Public Key: X25519, fresh for each connection."""
    sealed_sid: Bytes32Fixed
    """AES(K + sid): the session id, encrypted, and a tag over the frame."""


class Err(Layout):
    """Something failed: one request, or (Business CMD 0) the connection."""

    section: ClassVar[str] = "4.3 ERR"

    business_cmd: U32
    """Which business command failed; 0 is the connection."""
    error_number: Annotated[U32, Names(ErrorNumber)]
    """Why."""


class Pin(Layout):
    """Heartbeat of a client."""

    section: ClassVar[str] = "4.4 PING"

    ping_number: U32
    """Chosen by the client."""


class Pon(Layout):
    """Answer to a heartbeat."""

    section: ClassVar[str] = "4.5 PONG"

    ping_number: U32
    """The number of the PIN."""


class Req(Layout):
    """A request."""

    section: ClassVar[str] = "4.7 REQ"

    business_cmd: U32
    """What is asked; in clear, authenticated."""
    hmac: Bytes16Fixed
    """HMAC-SHA256 of head, options, Business CMD and data, cut to 16 bytes."""
    data: Rest = b""
    """AES-256-CTR of the arguments."""


class Rep(Layout):
    """A response."""

    section: ClassVar[str] = "4.8 REP"

    business_cmd: U32
    """What was asked; in clear, authenticated."""
    hmac: Bytes16Fixed
    """HMAC-SHA256 of head, options, Business CMD and data, cut to 16 bytes."""
    data: Rest = b""
    """AES-256-CTR of the result."""


class Psh(Layout):
    """A push of the server."""

    section: ClassVar[str] = "4.9 PSH"

    business_cmd: U32
    """What is pushed; in clear, authenticated."""
    hmac: Bytes16Fixed
    """HMAC-SHA256 of head, options, Business CMD and data, cut to 16 bytes."""
    data: Rest = b""
    """AES-256-CTR of what is pushed."""


class Fin(Layout):
    """The sender closes the connection."""

    section: ClassVar[str] = "4.6 FIN"

    reason_number: Annotated[U32, Names(Reason)] = Reason.NORMAL
    """Why."""


class Frame(Layout, kw_only=True):
    """Head, options and body."""

    section: ClassVar[str] = "frame head"

    # Checked on the first byte as one of the two values, and against the command once that is there
    # (section 2, order of checks).
    magic: ClassVar[Annotated[int, TagConstMark(Int(1))]]
    """0x7F for control, 0x7E for data."""
    version: ClassVar[Annotated[bytes, Magic(bytes([VERSION]), code="bad_version")]]
    """102."""
    cmd: ClassVar[Annotated[int, TagMark(Int(2)), Names(Cmd)]]
    """Which command."""
    head_optional: ClassVar[Annotated[int, OptionBitsMark(Int(2))]]
    """Bitmap of the options; bits 8-15 are critical."""
    head_length: ClassVar[Annotated[int, OptionsLengthMark(Int(2))]]
    """Size of the options."""
    seq: U32
    """Counts every frame of a direction, from 1."""
    length: ClassVar[Annotated[int, LengthMark(Int(4), limit=FRAME_LIMIT)]]
    """Message Length: options and body."""
    auth: Annotated[bytes | None, Fixed(TAG_BYTES), Option(AUTH_OPTION, (Err, Pin, Pon, Fin))] = (
        None
    )
    """AUTH: a tag over the whole control frame."""
    # A REP has a Seq of its own: repeating the request's would break nonces and the detection of
    # gaps (rule 12).
    reply_to: Annotated[U32 | None, Option(0x0002, (Rep, Err))] = None
    """REPLY_TO: Seq of the REQ that this answers."""
    resume: Annotated[Resume | None, Option(RESUME_OPTION, (Syn,))] = None
    """RESUME: session id and binder."""
    key_id: Annotated[bytes | None, Fixed(8), Option(0x0200, (Syn,))] = None
    """KEY_ID: which pinned or shared key the client uses."""
    unknown_options: Annotated[
        # Unknown bits 8-15 are refused: a critical option cannot be ignored (sections 2, 4.11).
        tuple[tuple[int, bytes], ...], UnknownOptions(Int(2), critical=0xFF00)
    ] = ()
    """Options of bits 0-7 that this version does not know, kept."""
    body: Annotated[
        Syn | Ack | Err | Pin | Pon | Req | Rep | Psh | Fin,
        Choice(
            {
                Cmd.SYN: Case(Syn, const=CONTROL, limit=HANDSHAKE_LIMIT),
                Cmd.ACK: Case(Ack, const=CONTROL, limit=HANDSHAKE_LIMIT),
                Cmd.ERR: Case(Err, const=CONTROL),
                Cmd.PIN: Case(Pin, const=CONTROL),
                Cmd.PON: Case(Pon, const=CONTROL),
                Cmd.REQ: Case(Req, const=DATA),
                Cmd.REP: Case(Rep, const=DATA),
                Cmd.PSH: Case(Psh, const=DATA),
                Cmd.FIN: Case(Fin, const=CONTROL),
            },
            exact=True,
        ),
    ]
    """The command."""


SENDERS: dict[type[Layout], Direction] = {
    Syn: "c2s",
    Pin: "c2s",
    Req: "c2s",
    Ack: "s2c",
    Pon: "s2c",
    Rep: "s2c",
    Psh: "s2c",
}
"""Commands that only one side sends."""
