"""comet, mobile push: every command and every field of the document (seed 004).

A frame is a length, a type and a body. The two directions number their commands separately: type 0
is `auth` from a client and `ok` from a server, so a reader must know the direction. There is no
request id, no version and no magic: replies are matched by order alone.

Dialect `hipush` is the original's code: a notification has a `job_id` between id and content.
What the document leaves open is settled in `docs/decisions/comet.md`; rule numbers refer to it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar, Literal

from wirelake.wire.types import (
    I64,
    U8,
    Bytes16,
    Choice,
    Layout,
    Length16,
    List8,
    LooseString16,
    Names,
    Only,
    Secret,
    Tag8,
)

Dialect = Literal["seed", "hipush"]
"""The layout of notifications (rule 6)."""
SEALED_PREFIX = b"\x01\0\0\0"
"""Sealed content begins with a version, 1, and a counter of 8 bytes that stays below 2^32."""
CONTENT_OVERHEAD = 25
"""Bytes that sealing adds to content: version, counter and tag."""


class NetworkType(IntEnum):
    """The kind of a phone's network."""

    WIFI = 0
    G2 = 1
    G3 = 2
    G4 = 3


class Isp(IntEnum):
    """The operator of a phone's network."""

    NONE = 0
    CHINA_MOBILE = 1
    UNICOM = 2
    TELECOM = 3


class ErrorCode(IntEnum):
    """Why a command was refused; 0-4 are the original's, 5-7 extend them (rule 22)."""

    TOKEN_ILLEGAL = 0
    CLIENT_NOT_FOUND = 1
    ALREADY_ONLINE = 2
    SERVER_ERROR = 3
    BAD_ARGUMENTS = 4
    AUTH_REQUIRED = 5
    TOO_BUSY = 6
    KEY_REQUIRED = 7


# -- client to server ------------------------------------------------------------------------


# Strings are loose: one that is not UTF-8 is a bad argument, answered with error 4 by the session
# (`arguments.py`, rule 10). A codec error would close the connection (section 5).
class Auth(Layout):
    """A client signs on; the answer is auth_success or error."""

    section: ClassVar[str] = "auth消息体{type=0}"

    client_id: LooseString16
    """Which client this is."""
    token: Secret[LooseString16]
    """What proves it; travels in clear unless the connection is inside TLS."""


class ExchangeKey(Layout):
    """The client's secret, wrapped for the key in auth_success."""

    section: ClassVar[str] = "exchange_key消息题{type=1}"

    secret_key: Secret[Bytes16]
    """Wrapped secret: 80 bytes in the X25519 suite, the modulus size with RSA."""


class GetTopicList(Layout):
    """Asks which topics the client is subscribed to."""

    section: ClassVar[str] = "get_topic_list消息体{type=2}"


class Subscribe(Layout):
    """Subscribes to topics; one bad topic refuses them all."""

    section: ClassVar[str] = "subscribe消息体{type=3}"

    topics: List8[LooseString16]
    """Topic names; each begins with @."""


class Unsubscribe(Layout):
    """Ends subscriptions; one that does not exist is no error."""

    section: ClassVar[str] = "unsubscribe消息体{type=4}"

    topics: List8[LooseString16]
    """Topic names; each begins with @."""


class GetMessageList(Layout):
    """Asks for the notifications that wait for an acknowledgement."""

    section: ClassVar[str] = "get_message_list消息体{type=5}"


class Heartbeat(Layout):
    """A heartbeat; the answer is ok. The document also spells it heatbeat."""

    section: ClassVar[str] = "heartbeat消息题{type=6}"


class MessageAck(Layout):
    """Acknowledges notifications, which are then never sent again."""

    section: ClassVar[str] = "message_ack消息题{type=7}"

    msg_ids: List8[LooseString16]
    """Ids of the notifications; unknown ones are ignored."""


class ReportEnviron(Layout):
    """Describes the client's device."""

    section: ClassVar[str] = "report_environ消息体{type=8}"

    network_type: Annotated[U8, Names(NetworkType)]
    """What it is connected through."""
    isp: Annotated[U8, Names(Isp)]
    """Whose network it is on."""
    phone_type: LooseString16
    """Model of the phone."""
    # The document leaves out the count; the original's codec writes one (rule 4).
    extra: List8[LooseString16] = ()
    """Further facts, free text; by custom key=value."""


# -- server to client ------------------------------------------------------------------------


class Ok(Layout):
    """The command was carried out."""

    section: ClassVar[str] = "ok消息题{type=0}"


class Error(Layout):
    """The command was refused."""

    section: ClassVar[str] = "error消息题{type=1}"

    error_code: Annotated[U8, Names(ErrorCode)]
    """Why, as a number."""
    reason: LooseString16 = ""
    """Why, in words."""


class AuthSuccess(Layout):
    """The sign-on succeeded."""

    section: ClassVar[str] = "auth_success消息体{type=2}"

    encrypt_key: Bytes16
    """The server's public key as SubjectPublicKeyInfo; its algorithm chooses the suite."""


class TopicList(Layout):
    """The topics that the client is subscribed to."""

    section: ClassVar[str] = "topic_list消息体{type=3}"

    topics: List8[LooseString16]
    """Topic names."""


class Notification(Layout):
    """One notification (通知), pushed while online or listed."""

    wire_name: ClassVar[str] = "message"
    section: ClassVar[str] = "通知结构体, message消息题{type=5}"

    msg_type: U8
    """The application's own number; no value has a meaning here."""
    msg_id: LooseString16
    """What to acknowledge; 16 characters when the original or this hub made it."""
    # Not in the document, but the original's code sends it (rule 6).
    job_id: Annotated[LooseString16, Only("hipush")] = ""
    """The push job it belongs to."""
    content: Bytes16 = b""
    """The text, or its sealed form after a key exchange."""
    ts: I64 = 0
    """When it was published, in milliseconds since 1970."""


class MessageList(Layout):
    """Notifications that wait for an acknowledgement, oldest first."""

    section: ClassVar[str] = "message_list消息体{type=4}"

    messages: List8[Notification]
    """As many as fit; the client acknowledges and asks again until it gets none."""


Command = (
    Auth
    | ExchangeKey
    | GetTopicList
    | Subscribe
    | Unsubscribe
    | GetMessageList
    | Heartbeat
    | MessageAck
    | ReportEnviron
)
Reply = Ok | Error | AuthSuccess | TopicList | MessageList | Notification


class Frame(Layout):
    """The frame of every command."""

    section: ClassVar[str] = "协议指令"

    # Read as unsigned. What we send stays below 32,768, because the original reads it as signed
    # (rule 2, `limits.py`).
    length: ClassVar[Length16]
    """Bytes that follow: type and body."""
    type: ClassVar[Tag8]
    """Which command; each direction has its own numbers."""
    body: Annotated[
        Command | Reply,
        Choice(
            c2s={
                0: Auth,
                1: ExchangeKey,
                2: GetTopicList,
                3: Subscribe,
                4: Unsubscribe,
                5: GetMessageList,
                6: Heartbeat,
                7: MessageAck,
                8: ReportEnviron,
            },
            s2c={
                0: Ok,
                1: Error,
                2: AuthSuccess,
                3: TopicList,
                4: MessageList,
                5: Notification,
            },
        ),
    ]
    """The command itself."""
