"""Run the comet vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

`direction` decides what a type number means, `expect.dialect` whether a notification has a job id
and DES content. A vector that is not `ok` states the error and the number of frames before it;
`args_valid: false` is a frame that decodes, whose command is then refused with `reply`.

A field `x` is given as itself, as `x_hex` (its bytes), `x_len` (its length in bytes) or `x_kind`
(the kind of key); a long list as `count`, `first` and `last`. Each field must be given somehow.

Keys, secrets and sealed content are derived anew. A transcript is an auth, an auth_success with a
public key, and the exchange_key that answers it, found among the vectors of all files; a server's
private key is found by its public key. Nothing is taken from the expected values: those are
compared.

`REFERENCE` contains the transcript that most vectors refer to, for files that are run without it.
Its keys were created for testing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from wirelake.protocols.comet import layout
from wirelake.protocols.comet.arguments import BAD_ARGUMENTS_REPLY, BAD_KEY_REPLY, check_arguments
from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
    ExchangeKey,
    MessageList,
    Notification,
)
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.comet.sealing import (
    ContentOpener,
    ContentSealer,
    HipushContent,
    RsaServerKey,
    ServerKey,
    X25519ServerKey,
    choose_suite,
    content_key,
    derive_wrap_key,
    key_kind,
    transcript_1,
    transcript_2,
    wrap_secret,
)
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore, WireError
from wirelake.wire.model import Direction

from .expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_prefixes,
    classify,
)

__all__ = [
    "CLASSES",
    "COMMANDS",
    "ERRORS",
    "REFERENCE",
    "Exchange",
    "check_exchange",
    "compare_fields",
    "content_keys",
    "des_key",
    "fields_of",
    "reply_view",
    "run",
    "unwrap",
]

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
    """Return the fields of a command; `job_id` exists in dialect hipush only."""
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
    """Compare every way in which the vector gives a field."""
    for name, value in view.items():
        given = [_given(expect, name, value)]
        if isinstance(value, list):
            given.append(_ends(expect, value))
        if not any(given):
            raise expect.fail(name, "not in the vector")
    expect.done()


def _given(expect: Expect, name: str, value: Any) -> bool:
    """Compare the forms of one field; whether there was any."""
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
            raise expect.fail(name, f"expected {len(entries)} items, got {len(value)}")
        for entry, item in zip(entries, value, strict=True):
            compare_fields(entry, item)
    else:
        expect.equal(name, _each(value, lambda item: _text(name, item)))


def _ends(expect: Expect, value: list[Any]) -> bool:
    """Return a list that is given by its size and its ends."""
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
    """Return a field as JSON has it: keys are hexadecimal, content is text if it can be."""
    if not isinstance(value, bytes):
        return value
    if name in _HEX_FIELDS:
        return value.hex()
    return value.decode("utf-8", "surrogateescape")


def reply_view(reply: layout.Error) -> dict[str, Any]:
    """Return an error as the `reply` of a vector."""
    return {"command": "error", "error_code": int(reply.error_code), "reason": reply.reason}


# -- key exchanges that vectors refer to -----------------------------------------------------------


_SERVER_PRIVATE = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
REFERENCE: Final[dict[str, str]] = {
    "auth": "003a00001063303130303030313030303061626364002574"
    + b"550e8400-e29b-41d4".hex()
    + b"-a716-446655440000".hex(),
    "auth_success": "002f02002c302a300506032b656e032100"
    "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    "exchange_key": "0053010050"
    "79cbbe10ba8739ad195c42721afb57732f3d80bf7c0f0f79c1b3676ceda45c00"
    "d4763666262d2c68eca32c4aecac5536d38de2bf3440b60ffa3cb081b26007e5"
    "1f88d6faa3f55e16bd188c53ccf77b15",
}
"""The frames of the X25519 transcript."""
_DES_KEY: Final = bytes.fromhex("0123456789abcdef")

EXCHANGE_KEYS: Final = (
    "content_key_hex",
    "dh_hex",
    "eph_private_hex",
    "rsa_private_pkcs8_hex",
    "th1_hex",
    "th2_hex",
    "unwrapped_hex",
    "wrap_key_hex",
)
"""What a vector with an exchange_key may say of the exchange."""


class Exchange(NamedTuple):
    """A key exchange that worked."""

    auth: bytes
    auth_success: bytes
    encrypt_key: bytes
    secret: bytes
    private: bytes | None
    """The server's X25519 key; None with RSA."""


def _frames(context: Context, direction: str, cls: type) -> Iterator[tuple[bytes, Any]]:
    """Yield the frames of a command among the vectors, with what they mean."""
    for raw in context.of("comet"):
        if raw.get("direction") != direction or raw["expect"].get("ok") is not True:
            continue
        try:
            data = bytes.fromhex(raw["hex"])
            message = PROTOCOL.decode(
                data, direction="c2s" if direction == "c2s" else "s2c"
            ).message
        except (ValueError, NeedMore, WireError):
            continue
        if isinstance(message, cls):
            yield data, message


def _auths(context: Context) -> list[bytes]:
    """Return the auth frames; the one that is called `auth` first."""
    named = context.find("comet", "auth")
    found = [data for data, _ in _frames(context, "c2s", Auth)]
    first = [bytes.fromhex(named["hex"])] if named is not None else []
    return list(dict.fromkeys([*first, bytes.fromhex(REFERENCE["auth"]), *found]))


def _offers(context: Context) -> list[tuple[bytes, bytes]]:
    """Return (auth_success frame, encrypt_key) of every offer."""
    found = [(data, m.encrypt_key) for data, m in _frames(context, "s2c", AuthSuccess)]
    reference = bytes.fromhex(REFERENCE["auth_success"])
    found.append((reference, reference[5:]))
    return list(dict.fromkeys(found))


def _private_for(encrypt_key: bytes, context: Context) -> bytes | None:
    known: dict[bytes, bytes] = context.cached(
        "comet private keys",
        lambda: {_public(key): key for key in [bytes.fromhex(_SERVER_PRIVATE), *context.keys32()]},
    )
    return known.get(encrypt_key[-32:])


def _public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def unwrap(secret_key: bytes, expect: Expect, context: Context) -> Exchange:
    """Return the exchange of a secret_key. Raises DecodeError `bad_key` when there is none."""
    if "rsa_private_pkcs8_hex" in expect:
        server = _rsa(expect)
        success = next((d for d, key in _offers(context) if key == server.encrypt_key), b"")
        auth = _auths(context)[0]
        secret = server.unwrap(secret_key, auth=auth, auth_success=success)
        return Exchange(auth, success, server.encrypt_key, secret, None)
    for success, encrypt_key in _offers(context):
        if key_kind(encrypt_key) != "spki-x25519":
            continue
        private = _private_for(encrypt_key, context)
        if private is None:
            continue
        for auth in _auths(context):
            try:
                secret = X25519ServerKey(private).unwrap(
                    secret_key, auth=auth, auth_success=success
                )
            except DecodeError:
                continue
            return Exchange(auth, success, encrypt_key, secret, private)
    raise DecodeError("bad_key", "secret_key")


def _rsa(expect: Expect) -> ServerKey:
    pkcs8 = expect.octets("rsa_private_pkcs8_hex")
    try:
        return RsaServerKey(pkcs8)
    except EncodeError:
        pass
    try:
        return RsaServerKey(pkcs8, legacy_hipush=True)
    except EncodeError as error:
        raise expect.fail("rsa_private_pkcs8_hex", str(error)) from None


def check_exchange(expect: Expect, frame: bytes, message: ExchangeKey, context: Context) -> None:
    """Compare the key exchange, if the vector has one."""
    if not any(key in expect for key in EXCHANGE_KEYS):
        return
    try:
        found = unwrap(message.secret_key, expect, context)
    except DecodeError as error:
        raise VectorFailure(f"expect.fields.secret_key: {error}") from None
    expect.equal("unwrapped_hex", found.secret.hex())
    th1 = transcript_1(found.auth, found.auth_success)
    expect.equal("th1_hex", th1.hex())
    expect.equal("th2_hex", transcript_2(found.auth, found.auth_success, frame).hex())
    if len(found.secret) == 32:
        key = content_key(found.secret, found.auth, found.auth_success, frame)
        expect.equal("content_key_hex", key.hex())
    if found.private is not None:
        _check_x25519(expect, message, found, th1)


def _check_x25519(expect: Expect, message: ExchangeKey, found: Exchange, th1: bytes) -> None:
    assert found.private is not None
    public = message.secret_key[:32]
    own = X25519PrivateKey.from_private_bytes(found.private)
    dh = own.exchange(X25519PublicKey.from_public_bytes(public))
    expect.equal("dh_hex", dh.hex())
    expect.equal("wrap_key_hex", derive_wrap_key(th1, dh).hex())
    if "eph_private_hex" not in expect:
        return
    private = expect.octets("eph_private_hex")
    if len(private) != 32 or _public(private) != public:
        raise expect.fail("eph_private_hex", f"not the private key of {public.hex()}")
    again = wrap_secret(
        found.encrypt_key,
        found.secret,
        auth=found.auth,
        auth_success=found.auth_success,
        eph_private=private,
    )
    if again != message.secret_key:
        raise VectorFailure(f"hex: wrapping the secret gives {again.hex()}")


def content_keys(context: Context) -> list[bytes]:
    """Return the content keys of all X25519 exchanges, the reference's among them."""

    def derive() -> list[bytes]:
        frames = [data for data, _ in _frames(context, "c2s", ExchangeKey)]
        keys = []
        for frame in [*frames, bytes.fromhex(REFERENCE["exchange_key"])]:
            try:
                found = unwrap(frame[5:], Expect({}), context)
            except DecodeError:
                continue
            keys.append(content_key(found.secret, found.auth, found.auth_success, frame))
        return list(dict.fromkeys(keys))

    keys: list[bytes] = context.cached("comet content keys", derive)
    return keys


def des_key(context: Context) -> bytes:
    """Return the DES key of the original's transcript, unwrapped from its exchange_key if known."""

    def derive() -> bytes:
        for raw in context.of("comet"):
            expect = Expect(raw["expect"])
            if "rsa_private_pkcs8_hex" not in expect:
                continue
            try:
                found = unwrap(bytes.fromhex(raw["hex"])[5:], expect, context)
            except (DecodeError, ValueError, VectorFailure):
                continue
            if len(found.secret) == 8:
                return found.secret
        return _DES_KEY

    key: bytes = context.cached("comet des key", derive)
    return key


# -- one vector ------------------------------------------------------------------------------------


ERRORS: Final = (
    ErrorClass("frame_error", ("bad_length",)),
    ErrorClass("unknown_type", ("unknown_type",)),
    ErrorClass("truncated", ("short", "length_overrun")),
    ErrorClass("trailing", ("trailing_bytes",)),
    ErrorClass("bad_args", ("bad_args",)),
    ErrorClass("bad_key", ("bad_key",)),
    ErrorClass("bad_record", ("bad_record",)),
)
"""Classes of the vectors, and our codes."""
INCOMPLETE: Final = "incomplete"
"""The class of *need more*."""
CLASSES: Final = (INCOMPLETE, *(line.name for line in ERRORS))
"""Every class that a vector may name."""

_NOT_FATAL: Final = (INCOMPLETE, "bad_args")
_BEYOND_THE_CODEC: Final = ("bad_args", "bad_key", "bad_record")
_DIRECTIONS: Final[dict[str, Direction]] = {"c2s": "c2s", "s2c": "s2c"}


def run(raw: dict[str, Any], context: Context) -> None:
    """Check one vector."""
    vector = Vector(raw)
    direction = _DIRECTIONS[vector.top.text("direction", _DIRECTIONS)]
    if "dialect" in vector.top and "dialect" not in vector.expect:
        vector.expect.data = {**vector.expect.data, "dialect": vector.top.text("dialect")}
    case = _Case(vector.expect, vector.data, direction, context)
    if "error" in vector.expect:
        case.refused()
    elif "frames" in vector.expect:
        vector.expect.equal("ok", True)
        stop = case.frames(vector.expect.children("frames"))
        if stop != len(vector.data):
            raise VectorFailure(f"hex: the frames stop at byte {stop} of {len(vector.data)}")
    else:
        case.accepted()
    vector.done()


class _Case:
    """One frame, or some."""

    def __init__(self, expect: Expect, data: bytes, direction: Direction, context: Context):
        self.expect = expect
        self.data = data
        self.direction = direction
        self.context = context
        self.dialect = expect.text("dialect", PROTOCOL.dialects, default="seed")

    def decode(self, data: bytes, start: int = 0) -> tuple[Any, int]:
        message, stop = PROTOCOL.decode(data, start, direction=self.direction, dialect=self.dialect)
        return message, stop

    # -- accepted ----------------------------------------------------------------------------

    def accepted(self) -> None:
        expect = self.expect
        try:
            message, stop = self.decode(self.data)
        except (NeedMore, WireError) as error:
            raise VectorFailure(f"hex: {error}") from None
        if stop != len(self.data):
            raise VectorFailure(f"hex: the frame stops at byte {stop} of {len(self.data)}")
        again = PROTOCOL.encode(message, dialect=self.dialect)
        if again != self.data:
            raise VectorFailure(f"hex: re-encoded as {again.hex()}")
        if self.context.thorough:
            check_prefixes(self.decode, self.data)
        expect.equal("ok", True)
        name, number = COMMANDS[type(message)]
        expect.equal("command", name)
        expect.equal("type", number)
        plain = self.readable(message)
        compare_fields(expect.child("fields"), fields_of(plain, self.dialect))
        self.arguments(message)
        if isinstance(message, ExchangeKey):
            check_exchange(expect, self.data, message, self.context)
        elif isinstance(message, Notification | MessageList) and "content_key_hex" in expect:
            self.unsealed(message)

    def arguments(self, message: Any) -> None:
        """Check the arguments of a client's command, and the reply to invalid ones."""
        if "args_valid" not in self.expect and "reply" not in self.expect:
            return
        try:
            check_arguments(message)
            valid = True
        except DecodeError:
            valid = False
        self.expect.equal("args_valid", valid)
        if valid and "reply" in self.expect:
            raise self.expect.fail("reply", "unexpected: the command is valid")
        self.expect.equal("reply", reply_view(BAD_ARGUMENTS_REPLY))

    def readable(self, message: Any) -> Any:
        """Return a message of dialect hipush with its content decrypted."""
        if self.dialect != "hipush":
            return message
        if isinstance(message, MessageList):
            return MessageList(messages=tuple(map(self.readable, message.messages)))
        if not isinstance(message, Notification):
            return message
        cipher = HipushContent(des_key(self.context), legacy_hipush=True)
        try:
            plain = cipher.open(message.content)
        except DecodeError as error:
            raise VectorFailure(f"expect.fields.content: {error}") from None
        if cipher.seal(plain) != message.content:
            raise VectorFailure("expect.fields.content: encrypting it gives other bytes")
        return msgspec.structs.replace(message, content=plain)

    def unsealed(self, message: Notification | MessageList) -> None:
        """Open content with the key of an exchange, and check that sealing it gives equal bytes."""
        notifications = message.messages if isinstance(message, MessageList) else (message,)
        key = self.key()
        counters, texts = [], []
        for notification in notifications:
            bound: dict[str, Any] = {
                "msg_type": notification.msg_type,
                "msg_id": notification.msg_id,
                "ts": notification.ts,
            }
            try:
                counter, plain = ContentOpener(key).peek(notification.content, **bound)
            except DecodeError as error:
                raise VectorFailure(f"expect.fields.content: {error}") from None
            sealer = ContentSealer(key)
            sealer.counter = counter - 1
            if sealer.seal(plain, **bound) != notification.content:
                raise VectorFailure("expect.fields.content: sealing it gives other bytes")
            counters.append(counter)
            texts.append(plain.decode("utf-8", "surrogateescape"))
        single = isinstance(message, Notification)
        self.expect.equal("counter", counters[0] if single else counters)
        self.expect.equal("decrypted_content", texts[0] if single else texts)

    def key(self) -> bytes:
        """Return the content key that the vector names, if an exchange derives it."""
        expected = self.expect.octets("content_key_hex")
        if expected not in content_keys(self.context):
            raise self.expect.fail("content_key_hex", "no exchange in the vectors derives this key")
        return expected

    def frames(self, entries: list[Expect]) -> int:
        """Check consecutive frames; return where the last one stops."""
        pos = 0
        for entry in entries:
            try:
                stop = PROTOCOL.scan(self.data, pos, dialect=self.dialect)
            except (NeedMore, WireError) as error:
                raise VectorFailure(f"{entry.path}: {error}") from None
            _Case(entry, self.data[pos:stop], self.direction, self.context).accepted()
            entry.done()
            pos = stop
        return pos

    # -- refused -----------------------------------------------------------------------------

    def refused(self) -> None:
        expect = self.expect
        expected = expect.text("error", CLASSES)
        beyond = expected in _BEYOND_THE_CODEC
        before, pos, need, got = 0, 0, None, "no error"
        while got == "no error" and (pos < len(self.data) or not self.data):
            try:
                message, stop = self.decode(self.data, pos)
                if beyond:
                    self.check_message(message)
                before, pos = before + 1, stop
            except NeedMore as more:
                got, need = INCOMPLETE, more.need
            except DecodeError as error:
                got = classify(ERRORS, error)
        if got != expected:
            raise expect.fail("error", f"expected {expected}, got {got}")
        expect.equal("ok", False)
        expect.equal("fatal", got not in _NOT_FATAL)
        expect.equal("frames_before", before)
        expect.equal("need", need)
        expect.equal(
            "reply", reply_view(BAD_KEY_REPLY if got == "bad_key" else BAD_ARGUMENTS_REPLY)
        )
        if "frames" in expect:
            entries = expect.children("frames")
            if len(entries) != before or self.frames(entries) != pos:
                raise expect.fail("frames", f"{before} frames come before the error")
        if self.context.thorough and not beyond:
            rest = self.data[pos:]
            check_prefixes(self.decode, rest, lambda error: classify(ERRORS, error) == expected)

    def check_message(self, message: Any) -> None:
        """Return what is wrong with a frame that decodes."""
        match message:
            case ExchangeKey():
                unwrap(message.secret_key, self.expect, self.context)
            case AuthSuccess():
                choose_suite(message.encrypt_key)
            case Notification() if "content_key_hex" in self.expect:
                opener = ContentOpener(self.key())
                opener.open(
                    message.content,
                    msg_type=message.msg_type,
                    msg_id=message.msg_id,
                    ts=message.ts,
                )
            case _ if self.direction == "c2s":
                check_arguments(message)
            case _:
                pass
