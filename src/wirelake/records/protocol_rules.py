"""The matching rules of each protocol: its `Meaning` resolved to plain data, once.

Both implementations of the rules read this: the engines of this package, message by message, and
`wirelake.columnar.fold`, which turns names into flags and kinds before its kernels run. A protocol
that is not installed has no rules: its messages are still matched by kind, id and order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from wirelake.protocols import registry
from wirelake.wire.meaning import At, Tunnels, Values
from wirelake.wire.protocol import Protocol

from .arguments import ArgumentReader, argument_reader

__all__ = [
    "ADDRESS",
    "DEVICE_COLUMNS",
    "PORT",
    "PUBLISHED",
    "RESULT",
    "SESSION",
    "ProtocolRules",
    "link_protocols",
    "publication_protocol",
    "rules_of",
]

PUBLISHED: Final = "ts"
"""When notifications were published, in milliseconds since 1970: one time, or a list of them."""
SESSION: Final = "resume_sid"
"""The session that a handshake asks to resume."""
ADDRESS: Final = "ip"
PORT: Final = "port"
"""The user of a tunnel."""
RESULT: Final = "result"
"""Whether a tunnel was accepted."""
DEVICE_COLUMNS: Final = ("network_type", "isp", "phone_type")
"""Columns of `connections` that a device reports."""


class ProtocolRules(NamedTuple):
    """The rules for the messages of one protocol."""

    heartbeats: frozenset[str] = frozenset()
    """Heartbeat messages."""
    confirmations: frozenset[str] = frozenset()
    """Messages by which a server accepts a client."""
    device_message: str | None = None
    """The message with the fields of `DEVICE_COLUMNS`."""
    device_texts: Mapping[str, Values] = {}
    """By column: the texts of numbers. Other numbers are shown in digits."""
    resuming_message: str | None = None
    """The message with the field `SESSION`."""
    published: Mapping[str, str] = {}
    """By message: the path of `PUBLISHED`."""
    tunnels: Tunnels | None = None
    """The messages that open, close and carry tunnels; None when the protocol has none."""
    tunnel_messages: frozenset[str] = frozenset()
    """Messages about a tunnel."""
    arguments: ArgumentReader | None = None
    """Reads what calls have as arguments; None when the protocol declares none."""
    sign_on_target: str | None = None
    """The target of requests with which a client signs on, once they are answered with ok."""
    fields: Mapping[str, Mapping[str, str]] = {}
    """By message: the fields that the rules read, and their paths in the protocol's struct. A path
    with `[]` goes through a list: the value is then a list."""


NO_RULES: Final = ProtocolRules()


def rules_of(protocol: str) -> ProtocolRules:
    """Return the rules of a protocol by name."""
    return _RULES[protocol]


def link_protocols() -> tuple[str, ...]:
    """Return the installed protocols whose connections carry tunnels."""
    return _link_protocols(tuple(registry.names()))


def publication_protocol() -> str:
    """Return the protocol that a fact about a publication belongs to when it names none.

    Recorders write such facts for the clients of the one built-in protocol whose messages carry
    notification ids.
    """
    return _publication_protocol(tuple(registry.names()))


class _Rules(dict[str, ProtocolRules]):
    """Rules by name. A plain dict lookup per message; a protocol is resolved when first seen."""

    def __missing__(self, name: str) -> ProtocolRules:
        try:
            found = _resolved(registry.find(name))
        except registry.RegistryError:
            found = NO_RULES
        self[name] = found
        return found


_RULES: Final = _Rules()


@functools.lru_cache(maxsize=4)
def _link_protocols(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if rules_of(name).tunnels is not None)


@functools.lru_cache(maxsize=4)
def _publication_protocol(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            if registry.find(name).meaning.ids:
                return name
        except registry.RegistryError:
            continue
    return ""


def _resolved(protocol: Protocol) -> ProtocolRules:
    meaning = protocol.meaning
    fields: dict[str, dict[str, str]] = {}
    published: dict[str, str] = {}
    for path in meaning.published_ms:
        for message in _messages_with(protocol, path):
            published[message] = fields.setdefault(message, {})[PUBLISHED] = path
    device_texts: dict[str, Values] = {}
    if meaning.device is not None:
        for column in DEVICE_COLUMNS:
            term: At | Values | None = getattr(meaning.device, column)
            if isinstance(term, Values):
                device_texts[column] = term
                assert isinstance(term.of, At), f"{protocol.name}: {column} is not a field"
                term = term.of
            if term is not None:
                fields.setdefault(meaning.device.message, {})[column] = term.path
    if meaning.resumption is not None:
        fields.setdefault(meaning.resumption.message, {})[SESSION] = meaning.resumption.session
    if (tunnels := meaning.tunnels) is not None:
        for message, key, field in (
            (tunnels.connect, ADDRESS, tunnels.address),
            (tunnels.connect, PORT, tunnels.port),
            (tunnels.connected, RESULT, tunnels.accepted),
        ):
            if field is not None:
                fields.setdefault(message, {})[key] = field
    return ProtocolRules(
        frozenset(meaning.heartbeats),
        frozenset(meaning.sign_on.confirmed_by),
        None if meaning.device is None else meaning.device.message,
        device_texts,
        None if meaning.resumption is None else meaning.resumption.message,
        published,
        tunnels,
        frozenset() if tunnels is None else tunnels.messages,
        argument_reader(protocol),
        _sign_on_target(protocol),
        fields,
    )


def _sign_on_target(protocol: Protocol) -> str | None:
    arguments = protocol.meaning.arguments
    return None if arguments is None or arguments.client is None else arguments.client.target


def _messages_with(protocol: Protocol, path: str) -> list[str]:
    """Return the messages that have a path: one body, or all when it is a field of the frame."""
    model = protocol.model()
    if model.body is None:
        return [model.name]
    names = [each.layout.name for each in model.body.alternatives]
    first = path.partition(".")[0].removesuffix("[]")
    return [first] if first in names else names
