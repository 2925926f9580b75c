"""Runs the comet vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

`direction` decides what a type number means, `expect.dialect` whether a notification has a job id
and DES content. A vector that is not `ok` says what goes wrong and how many frames came before it;
`args_valid: false` is a frame that decodes, whose command is then refused with `reply`. Keys,
secrets and sealed content are worked out anew (`vectors_keys.py`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from wirelake.wire.errors import (
    DecodeError,
    NeedMore,
    WireError,
)
from wirelake.wire.model import Direction

from ..expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_prefixes,
    classify,
)
from .arguments import (
    BAD_ARGUMENTS_REPLY,
    BAD_KEY_REPLY,
    check_arguments,
)
from .layout import AuthSuccess, ExchangeKey, MessageList, Notification
from .protocol import PROTOCOL
from .sealing import (
    ContentOpener,
    ContentSealer,
    HipushContent,
    choose_suite,
)
from .vectors_excuses import EXCUSES
from .vectors_fields import (
    COMMANDS,
    compare_fields,
    fields_of,
    reply_view,
)
from .vectors_keys import (
    check_exchange,
    content_keys,
    des_key,
    unwrap,
)

__all__ = ["CLASSES", "ERRORS", "EXCUSES", "run"]

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
    """Checks one vector."""
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
            raise VectorFailure(f"hex: written again it is {again.hex()}")
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
        """Whether a client's command makes sense, and what it is told if not."""
        if "args_valid" not in self.expect and "reply" not in self.expect:
            return
        try:
            check_arguments(message)
            valid = True
        except DecodeError:
            valid = False
        self.expect.equal("args_valid", valid)
        if valid and "reply" in self.expect:
            raise self.expect.fail("reply", "nothing is wrong with the command")
        self.expect.equal("reply", reply_view(BAD_ARGUMENTS_REPLY))

    def readable(self, message: Any) -> Any:
        """In dialect hipush, the same message with its content decrypted."""
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
            raise VectorFailure("expect.fields.content: encrypted again it is not the same")
        return msgspec.structs.replace(message, content=plain)

    def unsealed(self, message: Notification | MessageList) -> None:
        """Content under the key of some exchange; sealed again, the bytes are equal."""
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
                raise VectorFailure("expect.fields.content: sealed again it is not the same")
            counters.append(counter)
            texts.append(plain.decode("utf-8", "surrogateescape"))
        single = isinstance(message, Notification)
        self.expect.equal("counter", counters[0] if single else counters)
        self.expect.equal("decrypted_content", texts[0] if single else texts)

    def key(self) -> bytes:
        """The content key that the vector names, once it has been worked out from an exchange."""
        wanted = self.expect.octets("content_key_hex")
        if wanted not in content_keys(self.context):
            raise self.expect.fail("content_key_hex", "no exchange in the files gives this key")
        return wanted

    def frames(self, entries: list[Expect]) -> int:
        """Frames one after the other; returns where the last of them stops."""
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
        wanted = expect.text("error", CLASSES)
        beyond = wanted in _BEYOND_THE_CODEC
        before, pos, need, got = 0, 0, None, "no error"
        while got == "no error" and (pos < len(self.data) or not self.data):
            try:
                message, stop = self.decode(self.data, pos)
                if beyond:
                    self.judge(message)
                before, pos = before + 1, stop
            except NeedMore as more:
                got, need = INCOMPLETE, more.need
            except DecodeError as error:
                got = classify(ERRORS, error)
        if got != wanted:
            raise expect.fail("error", f"wanted {wanted}, got {got}")
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
            check_prefixes(self.decode, rest, lambda error: classify(ERRORS, error) == wanted)

    def judge(self, message: Any) -> None:
        """What is wrong with a frame that decodes."""
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
