"""What the messages of a protocol mean, as data: the declaration behind the columns of `messages`.

A protocol's `Meaning` declares where a message has its id, its request and its target. It is made
of the terms below, which tools evaluate: `wirelake.records` on one decoded message,
`wirelake.columnar` on columns of many. A term has a value, or none.

    MEANING = Meaning(
        kind=Named({"ask": "request", "tell": "response"}),
        message_id=At("number"),
        target=Text(At("ask.what")),
        body="tell.data",
    )

A path such as `auth.client_id` names a field of the frame, or of the body by its name, or of a
stage by its name (`message.id`); `[]` goes through a list (`message_list.messages[].msg_id`). It
has no value where the message has another body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from .model import Direction

__all__ = [
    "KINDS",
    "Argument",
    "Arguments",
    "At",
    "CounterCipher",
    "Device",
    "Each",
    "Equal",
    "First",
    "HasRow",
    "If",
    "Is",
    "Join",
    "KeySelector",
    "Meaning",
    "Name",
    "Named",
    "NamedRows",
    "Resumption",
    "RowField",
    "SealMark",
    "SignOn",
    "TargetNames",
    "Term",
    "Text",
    "Tunnels",
    "Values",
]

KINDS: Final = (
    "request",
    "response",
    "part",
    "trace",
    "event",
    "push",
    "handshake",
    "heartbeat",
    "control",
    "relay",
    "sealed",
)
"""Values of the column `kind`. Calls are matched from `request`, `response`, `part` and `trace`."""


@dataclass(frozen=True, slots=True)
class At:
    """The field at a path."""

    path: str


@dataclass(frozen=True, slots=True)
class Each:
    """All values at a path that goes through a list, or the one at a path that does not."""

    path: str


@dataclass(frozen=True, slots=True)
class Name:
    """The name of the message: that of its body, or of the frame when there is no choice."""


@dataclass(frozen=True, slots=True)
class Named:
    """A text chosen by the name of the message."""

    texts: Mapping[str, str]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """A text chosen by a number; other numbers have `default`, or their digits with `digits`."""

    of: Term
    texts: Mapping[int, str]
    default: str | None = None
    digits: bool = False

    def text_of(self, number: int) -> str | None:
        """Return the text of a number; None when it has none."""
        return self.texts.get(number, str(int(number)) if self.digits else self.default)


@dataclass(frozen=True, slots=True)
class Text:
    """A number in decimal digits."""

    of: Term


@dataclass(frozen=True, slots=True)
class First:
    """The first of several terms that has a value."""

    terms: tuple[Term, ...]

    def __init__(self, *terms: Term):
        object.__setattr__(self, "terms", terms)


@dataclass(frozen=True, slots=True)
class Join:
    """Texts with a separator between them; those without a value are left out."""

    separator: str
    terms: tuple[Term, ...]

    def __init__(self, separator: str, *terms: Term):
        object.__setattr__(self, "separator", separator)
        object.__setattr__(self, "terms", terms)


@dataclass(frozen=True, slots=True)
class RowField:
    """A field of the first row of a kind; with `where`, of the first whose field has that value."""

    row: str
    name: str
    where: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class HasRow:
    """Whether there is a row of a kind; with `where`, one whose field has that value."""

    row: str
    where: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Is:
    """Whether a number is one of these; no when it has no value."""

    of: Term
    numbers: tuple[int, ...]

    def __init__(self, of: Term, *numbers: int):
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "numbers", numbers)


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two numbers are the same; no when one has no value."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class If:
    """One of two terms; a text is itself a term, None has no value."""

    test: Is | Equal | HasRow
    then: Term | str | None
    otherwise: Term | str | None = None


Term: TypeAlias = (
    At | Each | Name | Named | Values | Text | First | Join | RowField | HasRow | Is | Equal | If
)
"""Something that has a value for a message, or none."""


# -- connections, sealed bodies and tunnels ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignOn:
    """How a client authenticates; `Meaning.client` is the id that it claims."""

    confirmed_by: tuple[str, ...] = ()
    """Messages by which the server accepts a client. The connection keeps that client."""
    targets: tuple[str, ...] = ()
    """Targets of requests whose arguments hold credentials. No reader shows the content of such a
    message: its body, its self-describing values and its other bytes of any length. Credentials in
    fields of their own are declared there, with `Secret`."""
    part: Term | None = None
    """A text for messages without a target that may be a part of such a request, and whose content
    is not shown either. A reader cannot tell: the part with the target may come later, or be
    missing."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Arguments of the messages with a target, by name; their values are read as one list."""

    target: str
    names: tuple[str, ...]

    def __init__(self, target: str, *names: str):
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Rows with a name and a self-describing value each."""

    row: str
    """The kind of row."""
    name: str
    value: str
    """Fields of the row."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments by name that tables need, where calls have them and not fields of their own.

    They are members of the JSON object in the body, or rows. Other messages are not parsed. A value
    that a term of `Meaning` finds comes first.
    """

    client: Argument | None = None
    """The id that a client claims with a request. The client is signed on once the response to that
    request, by its id, has the status ok."""
    ids: tuple[Argument, ...] = ()
    """Ids of notifications that a message carries or acknowledges."""
    published_ms: Argument | None = None
    """When the notification of a message was published, in milliseconds since 1970."""
    rows: NamedRows | None = None
    """The rows that have the arguments; None when the body has them."""


@dataclass(frozen=True, slots=True)
class KeySelector:
    """The field by which key logs name a connection."""

    name: str
    """The name of the field in a line of a key log."""
    path: str
    """The same value in a message."""
    hexadecimal: bool = False
    """Whether the value is bytes, which a key log has as hexadecimal text."""


@dataclass(frozen=True, slots=True)
class SealMark:
    """How sealed bytes differ from plaintext, where a connection may have both."""

    prefix: bytes
    """The first bytes of everything that is sealed."""
    overhead_bytes: int
    """Bytes that sealing adds: what is shorter is not sealed."""
    unmarked_dialects: tuple[str, ...] = ()
    """Dialects without a mark. There, a body counts as sealed when a key is known."""


@dataclass(frozen=True, slots=True)
class CounterCipher:
    """AES in counter mode with a key per direction, to decrypt many messages at once.

    A counter block is the IV, with the message's number XORed into its last bytes, followed by the
    number of the block. Names are those of key logs, without the direction (`c2s_`, `s2c_`).
    """

    key: str
    iv: str
    mac: str
    """With this key a message must be verified too, one at a time."""
    number: str
    """The path of the message's number."""
    iv_bytes: int
    number_bytes: int
    block_number_bytes: int
    senders: Mapping[str, Direction] = field(default_factory=dict)
    """The ends that send messages, by name: those that only one end sends. They have its key, also
    where a capture does not tell which end is the client."""


@dataclass(frozen=True, slots=True)
class Device:
    """The message in which a client describes its device: columns of `connections`."""

    message: str
    network_type: At | Values | None = None
    isp: At | Values | None = None
    phone_type: At | Values | None = None


@dataclass(frozen=True, slots=True)
class Resumption:
    """The message that asks to resume an earlier session: it does where `session` has a value."""

    message: str
    session: str
    """The path of the session's id."""


@dataclass(frozen=True, slots=True)
class Tunnels:
    """Virtual connections inside a link. The target of each message names one: `instance/tunnel`.

    A tunnel exists from `connect` to `disconnect`, or until `connected` refuses it, and may move
    from one link to another.
    """

    protocol: str
    """The protocol of the messages in tunnels."""
    carrier: str
    """The message that carries another one."""
    message: str
    """The carried message: a path in the carrier, which is also the name of the stage that the
    other protocol has it in."""
    instance_id: str
    tunnel_id: str
    """Fields of the carrier that identify the tunnel."""
    connect: str
    connected: str
    disconnect: str
    others: tuple[str, ...] = ()
    """Further messages about a tunnel."""
    address: str | None = None
    port: str | None = None
    """Paths in `connect`: the address of the user, 4 or 16 bytes, and the port."""
    accepted: str | None = None
    """A path in `connected`: false when the tunnel is refused."""

    @property
    def inner(self) -> str:
        """The path of the carried message, from the frame."""
        return f"{self.carrier}.{self.message}"

    @property
    def messages(self) -> frozenset[str]:
        """Every message about a tunnel."""
        return frozenset(
            (self.connect, self.connected, self.disconnect, self.carrier, *self.others)
        )


@dataclass(frozen=True, slots=True)
class TargetNames:
    """How people write targets that are numbers. Tables have the decimal digits of all of them."""

    names: Mapping[int, str] = field(default_factory=dict)
    """Names of numbers whose meaning the protocol fixes."""
    hex_digits: int = 0
    """Least digits of hexadecimal numbers; 0 if the protocol counts in decimal."""

    def text(self, target: str) -> str:
        """Return what people call a target, with the digits that tables have."""
        if not (target.isascii() and target.isdecimal()):
            return target
        number = int(target)
        if number in self.names:
            return f"{self.names[number]} ({target})"
        return f"0x{number:0{self.hex_digits}x} ({target})" if self.hex_digits else target


@dataclass(frozen=True, slots=True)
class Meaning:
    """How the columns of `messages` are found; a term that is None has no value for any message."""

    kind: Term = field(default_factory=lambda: Named({}, "event"))
    name: Term = field(default_factory=Name)
    message_id: Term | None = None
    reply_to: Term | None = None
    target: Term | None = None
    target_names: TargetNames = field(default_factory=TargetNames)
    status: Term | None = None
    reason: Term | None = None
    client: Term | None = None
    ids: tuple[Each, ...] = ()
    """Paths of notification ids; the first one that has values counts."""
    body: tuple[str, ...] = ()
    """Paths of the application's bytes; the first one that is there counts. They are not repeated
    in the struct of the protocol."""
    body_row: RowField | None = None
    """The application's bytes in a row; these stay in the struct as well."""
    sealed: tuple[str, ...] = ()
    """Which of the paths in `body` hold bytes that are encrypted on the wire; and paths of such
    bytes in the items of a list."""
    seal_mark: SealMark | None = None
    """How sealed bytes are recognised; None when the paths in `sealed` are always sealed."""
    cipher: CounterCipher | None = None
    """The cipher of the paths in `sealed`, where readers can decrypt many messages at once."""
    key_selector: KeySelector | None = None
    """The message field that selects the keys of a connection."""
    transformed: tuple[str, ...] = ()
    """Flags of the frame that mark the bytes of its stage as transformed: without a key the stage
    is not decoded."""
    sign_on: SignOn = field(default_factory=SignOn)
    heartbeats: tuple[str, ...] = ()
    """Heartbeat messages, without their responses."""
    published_ms: tuple[str, ...] = ()
    """Paths of the times at which notifications were published, in milliseconds since 1970, in the
    order of the ids of their message."""
    arguments: Arguments | None = None
    """Client, notification ids and publication times where they are arguments of calls."""
    device: Device | None = None
    resumption: Resumption | None = None
    tunnels: Tunnels | None = None
    """The messages of a link that open, close and carry tunnels. A carried message has its own row
    and is not repeated in the struct of the carrier."""
