"""Runs the magline vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

`bad_*` must fail in the codec. `sess_*`, and whatever has `keys_of`, belong to a connection whose
handshake is over: direction, Seq, HMAC or AUTH tag are judged too, under `policy`. A frame that is
accepted is written again, and sealed again where it is sealed: the bytes must be equal.
"""

from __future__ import annotations

from typing import Any, Final

from wirelake.wire.errors import (
    DecodeError,
    EncodeError,
    NeedMore,
    WireError,
)

from ..expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_prefixes,
    classify,
)
from .handshake import (
    bind_syn,
    psk_key_id,
    seal_sid,
    server_key_id,
    server_keys,
    verify_binder,
    x25519_public,
    x25519_shared,
)
from .layout import Ack, Cmd, ErrorNumber, Frame, Psh, Rep, Req, Syn
from .protocol import PROTOCOL
from .records import (
    AuthState,
    RecordCipher,
    SeqCounter,
)
from .vectors_excuses import EXCUSES
from .vectors_frames import (
    COMMANDS,
    LEGAL,
    OPTIONAL,
    fields_view,
    head_view,
    legacy_view,
)
from .vectors_keys import (
    agree,
    keys_of,
    keys_view,
    private_for,
)

__all__ = ["CLASSES", "ERRORS", "EXCUSES", "run"]

ERRORS: Final = (
    ErrorClass("bad_magic", ("bad_magic",)),
    ErrorClass("magic_cmd_mismatch", ("magic_mismatch",)),
    ErrorClass("bad_version", ("bad_version",)),
    ErrorClass("unknown_cmd", ("unknown_type",)),
    ErrorClass("bad_header", ("bad_header",)),
    ErrorClass("bad_option", ("bad_option",)),
    ErrorClass("bad_length", ("bad_length",)),
    ErrorClass("too_large", ("too_large",)),
    ErrorClass("bad_state", ("bad_state",)),
    ErrorClass("handshake_failed", ("handshake_failed",)),
    ErrorClass("session_unknown", ("session_unknown",)),
    ErrorClass("bad_record", ("bad_record",)),
)
"""Classes of the vectors, and our codes."""
INCOMPLETE: Final = "incomplete"
"""The class of *need more*."""
CLASSES: Final = (INCOMPLETE, *(line.name for line in ERRORS))
"""Every class that a vector may name."""

_TOLD: Final[dict[str, ErrorNumber]] = {
    "bad_magic": ErrorNumber.BAD_FRAME,
    "magic_cmd_mismatch": ErrorNumber.BAD_FRAME,
    "bad_header": ErrorNumber.BAD_FRAME,
    "bad_length": ErrorNumber.BAD_FRAME,
    "bad_version": ErrorNumber.BAD_VERSION,
    "unknown_cmd": ErrorNumber.UNKNOWN_CMD,
    "bad_option": ErrorNumber.BAD_OPTION,
    "too_large": ErrorNumber.TOO_LARGE,
    "bad_state": ErrorNumber.BAD_STATE,
    "handshake_failed": ErrorNumber.HANDSHAKE,
    "session_unknown": ErrorNumber.SESSION_UNKNOWN,
    "bad_record": ErrorNumber.BAD_RECORD,
}
"""What the peer is told."""
_POLICIES: Final = ("control_auth=prefer", "control_auth=require")


def run(raw: dict[str, Any], context: Context) -> None:
    """Checks one vector."""
    vector = Vector(raw)
    direction = vector.top.text("direction", LEGAL)
    case = _Case(vector.expect, vector.data, direction, context)
    case.session = vector.name.startswith("sess_") or bool(
        {"keys_of", "expected_seq", "policy"} & vector.expect.data.keys()
    )
    if "primitive" in vector.expect:
        _primitive(vector)
    elif "frames" in vector.expect:
        case.several()
    elif "error" in vector.expect:
        case.refused()
    else:
        case.accepted()
    vector.done()


def _primitive(vector: Vector) -> None:
    expect = vector.expect
    expect.text("primitive", ("x25519",))
    expect.equal("ok", True)
    expect.equal("private", vector.data.hex())
    try:
        expect.equal("public", x25519_public(vector.data).hex())
    except EncodeError as error:
        raise VectorFailure(f"hex: {error}") from None


def _decode(data: bytes) -> tuple[Frame, int]:
    frame, stop = PROTOCOL.decode(data)
    return frame, stop


class _Case:
    """One frame, or some bytes that should not be one."""

    def __init__(self, expect: Expect, data: bytes, direction: str, context: Context):
        self.expect = expect
        self.data = data
        self.direction = direction
        self.context = context
        self.session = False
        self.auth: AuthState = "absent"
        self.hmac_state: str | None = None

    # -- accepted ----------------------------------------------------------------------------

    def accepted(self) -> None:
        try:
            frame, stop = _decode(self.data)
            opened = self.in_session(frame)
        except (NeedMore, WireError) as error:
            raise VectorFailure(f"hex: {error}") from None
        if stop != len(self.data):
            raise VectorFailure(f"hex: the frame stops at byte {stop} of {len(self.data)}")
        if COMMANDS[type(frame.body)] not in LEGAL[self.direction]:
            raise VectorFailure(f"direction: not legal {self.direction}")
        if PROTOCOL.encode(frame) != self.data:
            raise VectorFailure(f"hex: written again it is {PROTOCOL.encode(frame).hex()}")
        if self.context.thorough:
            check_prefixes(_decode, self.data)
        self.expect.equal("ok", True)
        self.expect.equal("command", COMMANDS[type(frame.body)].name)
        self.expect.equal("head", head_view(self.data))
        fields = fields_view(frame, self.auth, self.hmac_state)
        self.expect.take("fields")
        self.expect.equal("fields", fields, OPTIONAL)
        if opened is not None:
            self.expect.equal("data_hex", opened.hex())
        if isinstance(frame.body, Ack):
            self.handshake(frame.body)
        elif isinstance(frame.body, Syn):
            self.hello(frame)

    def hello(self, frame: Frame) -> None:
        """A SYN; one that resumes proves that it knows the session's secret."""
        if "resumption_secret" not in self.expect or frame.resume is None:
            return
        secret = self.expect.octets("resumption_secret")
        try:
            verify_binder(secret, self.data)
            valid = bind_syn(secret, self.data) == self.data
        except DecodeError:
            valid = False
        except EncodeError as error:
            raise self.expect.fail("resumption_secret", str(error)) from None
        self.expect.equal("binder_valid", valid)

    def handshake(self, body: Ack) -> None:
        """An ACK: both sides work out the keys, and each finds the other's."""
        expect = self.expect
        try:
            agreed = agree(self.data, expect, self.context)
        except DecodeError as error:
            raise VectorFailure(f"hex: {error}") from None
        expect.equal("mode", int(agreed.keys.mode))
        expect.equal("sid", agreed.sid.hex())
        expect.equal("keys", keys_view(agreed.keys))
        assert isinstance(agreed.syn_frame.body, Syn)
        for key, public in (
            ("client_private", agreed.syn_frame.body.public_key),
            ("server_private", body.public_key),
        ):
            self.pair(key, public)
        if "server_static_public" in expect:
            static = expect.octets("server_static_public")
            self.pair("server_static_private", static)
            if agreed.syn_frame.key_id != server_key_id(static):
                raise expect.fail("server_static_public", "the SYN names another key")
        if "psk_hex" in expect and agreed.syn_frame.key_id != psk_key_id(expect.octets("psk_hex")):
            raise expect.fail("psk_hex", "the SYN names another key")
        clear = self.data[: -len(body.sealed_sid)]
        if seal_sid(agreed.keys, clear, agreed.sid) != body.sealed_sid:
            raise VectorFailure("hex: sealed again, the session id is not the same")
        private = private_for(body.public_key, self.context)
        if private is not None:
            secrets = {"psk": expect.octets("psk_hex")} if "psk_hex" in expect else {}
            if "server_static_private" in expect:
                secrets["static_private"] = expect.octets("server_static_private")
            if agreed.resumption is not None:
                secrets["resumption"] = agreed.resumption
            mode = agreed.keys.mode
            server = server_keys(
                mode=mode, private=private, syn=agreed.syn, ack_clear=clear, **secrets
            )
            if server != agreed.keys:
                raise VectorFailure("the server works out other keys than the client")

    def pair(self, key: str, public: bytes) -> None:
        """Checks that a private key in the vector belongs to a public one."""
        if key not in self.expect:
            return
        try:
            found = x25519_public(self.expect.octets(key))
        except EncodeError as error:
            raise self.expect.fail(key, str(error)) from None
        if found != public:
            raise self.expect.fail(key, f"not the private key of {public.hex()}")

    # -- sessions ----------------------------------------------------------------------------

    def in_session(self, frame: Frame) -> bytes | None:
        """What a connection makes of a frame; returns the plaintext of a data frame."""
        policy = self.expect.text("policy", _POLICIES, default="control_auth=prefer")
        if not self.session:
            self.auth = "absent" if frame.auth is None else "unverified"
            return None
        if "keys_of" not in self.expect:
            self.before_keys(frame)
            return None
        keys = keys_of(self.expect.text("keys_of"), self.context)
        cmd = COMMANDS[type(frame.body)]
        if cmd not in LEGAL[self.direction] or cmd in (Cmd.SYN, Cmd.ACK):
            raise DecodeError("bad_state", "cmd", None, f"{cmd.name} is not legal now")
        if "expected_seq" in self.expect:
            SeqCounter(self.expect.number("expected_seq") - 1).accept(frame.seq)
        direction_keys = keys.c2s if self.direction == "c2s" else keys.s2c
        cipher, again = RecordCipher(direction_keys), RecordCipher(direction_keys)
        if isinstance(frame.body, Req | Rep | Psh):
            opened = cipher.open_data(self.data)
            self.hmac_state = opened.hmac_state
            clear = self.data[: len(self.data) - len(opened.data)] + opened.data
            if again.seal_data(clear) != self.data:
                raise VectorFailure("hex: sealed again it is not the same")
            return opened.data
        self.auth = cipher.open_control(self.data)
        if self.auth == "absent" and policy == "control_auth=require":
            raise DecodeError("bad_record", "auth")
        if self.auth == "valid" and again.seal_control(self.data) != self.data:
            raise VectorFailure("hex: tagged again it is not the same")
        return None

    def before_keys(self, frame: Frame) -> None:
        """A handshake: what a server makes of a SYN, and a client of an ACK."""
        cmd = COMMANDS[type(frame.body)]
        if cmd not in LEGAL[self.direction] or cmd not in (Cmd.SYN, Cmd.ACK, Cmd.ERR, Cmd.FIN):
            raise DecodeError("bad_state", "cmd", None, f"{cmd.name} is not legal now")
        if isinstance(frame.body, Syn):
            if frame.resume is not None:
                known = "resumption_secret" in self.expect
                secret = self.expect.octets("resumption_secret") if known else None
                verify_binder(secret, self.data)
            x25519_shared(bytes(range(1, 33)), frame.body.public_key)
        elif isinstance(frame.body, Ack):
            x25519_shared(bytes(range(1, 33)), frame.body.public_key)
            agree(self.data, self.expect, self.context)

    # -- refused -----------------------------------------------------------------------------

    def refused(self) -> None:
        wanted = self.expect.text("error", CLASSES)
        need: int | None = None
        try:
            frame, _ = _decode(self.data)
            self.in_session(frame)
        except NeedMore as more:
            got, need = INCOMPLETE, more.need
        except DecodeError as error:
            got = classify(ERRORS, error)
        except EncodeError as error:
            raise VectorFailure(f"expect: {error}") from None
        else:
            got = "no error"
        if got != wanted:
            raise self.expect.fail("error", f"wanted {wanted}, got {got}")
        number = _TOLD.get(got)
        self.expect.equal("err_no", None if number is None else int(number))
        self.expect.equal("fatal", got != INCOMPLETE)
        self.expect.equal("ok", False)
        self.expect.equal("need", need)
        self.expect.equal("legacy", legacy_view(self.data))
        head = head_view(self.data)
        self.expect.equal("head", head, frozenset(head))
        for key in ("keys_of", "expected_seq", "policy", "resumption_secret"):
            self.expect.get(key)
        if self.context.thorough:
            check_prefixes(_decode, self.data, lambda error: classify(ERRORS, error) == wanted)

    def several(self) -> None:
        """Frames that arrived together."""
        self.expect.equal("ok", True)
        pos = 0
        for entry in self.expect.children("frames"):
            try:
                stop = PROTOCOL.scan(self.data, pos)
            except (NeedMore, WireError) as error:
                raise VectorFailure(f"{entry.path}: {error}") from None
            case = _Case(entry, self.data[pos:stop], self.direction, self.context)
            case.session = "keys_of" in entry
            case.accepted()
            entry.done()
            pos = stop
        if pos != len(self.data):
            raise VectorFailure(f"hex: the frames stop at byte {pos} of {len(self.data)}")
