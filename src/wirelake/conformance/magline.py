"""Run the magline vectors: `run(vector, context)` raises VectorFailure when the code disagrees.

`bad_*` must fail in the codec. `sess_*`, and every vector with `keys_of`, belongs to a connection
whose handshake is complete: direction, Seq, HMAC or AUTH tag are checked too, under `policy`. A
frame that is accepted is encoded again, and sealed again where it is sealed: the bytes must be
equal.

Keys are derived from SYN, ACK and a private key. A vector names the frames that it belongs to
(`keys_of`, `answers`) or leaves them to be found: an ACK answers the SYN with which its tag is
valid. Private keys are found by their public keys in any file of the run. Nothing is taken from
`expect.keys`: those values are compared with the derived ones.

`REFERENCE` contains the handshake that most vectors refer to, for files that are run without it.
Its keys were created for testing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from wirelake.protocols.magline import layout
from wirelake.protocols.magline.handshake import (
    Mode,
    SessionKeys,
    bind_syn,
    client_keys,
    open_sid,
    psk_key_id,
    seal_sid,
    server_key_id,
    server_keys,
    verify_binder,
    x25519_public,
    x25519_shared,
)
from wirelake.protocols.magline.layout import Ack, Cmd, ErrorNumber, Frame, Psh, Rep, Req, Syn
from wirelake.protocols.magline.protocol import PROTOCOL
from wirelake.protocols.magline.records import AuthState, RecordCipher, SeqCounter
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore, WireError

from .expectation import (
    Context,
    ErrorClass,
    Expect,
    Vector,
    VectorFailure,
    check_prefixes,
    classify,
    hex_bytes,
)

__all__ = [
    "CLASSES",
    "COMMANDS",
    "ERRORS",
    "LEGAL",
    "OPTIONAL",
    "REFERENCE",
    "Handshake",
    "agree",
    "fields_view",
    "head_view",
    "keys_of",
    "keys_view",
    "legacy_view",
    "private_for",
    "run",
]

COMMANDS: Final[dict[type, Cmd]] = {
    layout.Syn: Cmd.SYN,
    layout.Ack: Cmd.ACK,
    layout.Err: Cmd.ERR,
    layout.Pin: Cmd.PIN,
    layout.Pon: Cmd.PON,
    layout.Req: Cmd.REQ,
    layout.Rep: Cmd.REP,
    layout.Psh: Cmd.PSH,
    layout.Fin: Cmd.FIN,
}
"""The command of each body."""

LEGAL: Final[dict[str, frozenset[Cmd]]] = {
    "c2s": frozenset({Cmd.SYN, Cmd.ERR, Cmd.PIN, Cmd.REQ, Cmd.FIN}),
    "s2c": frozenset({Cmd.ACK, Cmd.ERR, Cmd.PON, Cmd.REP, Cmd.PSH, Cmd.FIN}),
}
"""Which commands may come in a direction."""

OPTIONAL: Final = frozenset({"hmac", "ciphertext"})
"""Fields that a vector may leave out: the HMAC is checked, and the ciphertext decrypted, anyway."""

_HEAD: Final = struct.Struct(">BBHHHII")
_HEAD_NAMES: Final = (
    "magic",
    "version",
    "cmd",
    "head_optional",
    "head_length",
    "seq",
    "message_length",
)
_LEGACY: Final = struct.Struct("<BBHII")


def head_view(data: bytes) -> dict[str, int]:
    """Return the fields of a head; none when it is not all there."""
    if len(data) < _HEAD.size:
        return {}
    return dict(zip(_HEAD_NAMES, _HEAD.unpack_from(data), strict=True))


def legacy_view(data: bytes) -> dict[str, int]:
    """Return the head of the older protocol of the same name: 12 bytes, little-endian."""
    if len(data) < _LEGACY.size:
        return {}
    names = ("magic", "version", "cmd", "seq", "length")
    return dict(zip(names, _LEGACY.unpack_from(data), strict=True))


def fields_view(frame: Frame, auth: AuthState, hmac_state: str | None) -> dict[str, Any]:
    """Return the fields of a frame's body and its options."""
    view: dict[str, Any] = {}
    body = frame.body
    for name in body.__struct_fields__:
        value = getattr(body, name)
        key = "ciphertext" if name == "data" else name
        view[key] = value.hex() if isinstance(value, bytes) else value
    if isinstance(body, layout.Err | layout.Pin | layout.Pon | layout.Fin):
        view["auth"] = auth
    if hmac_state is not None:
        view["hmac_state"] = hmac_state
    if frame.reply_to is not None:
        view["reply_to"] = frame.reply_to
    if frame.key_id is not None:
        view["key_id"] = frame.key_id.hex()
    if frame.resume is not None:
        view["resume_sid"] = frame.resume.sid.hex()
        view["binder"] = frame.resume.binder.hex()
    if frame.unknown_options:
        view["unknown_options"] = [bit for bit, _ in frame.unknown_options]
    return view


# -- handshakes that vectors refer to --------------------------------------------------------------


_PRIVATES: Final = (
    "b8023ae2fde9f544066bcf9704cd01cd03f717b8987fb41ad2818b37e8edd94f",
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    bytes(range(1, 33)).hex(),
    bytes(range(33, 65)).hex(),
)
_RANDOM_C, _RANDOM_S = bytes(range(32)).hex(), bytes(range(32, 64)).hex()
_SYN_BODY = _RANDOM_C + "79cbbe10ba8739ad195c42721afb57732f3d80bf7c0f0f79c1b3676ceda45c00"
_ACK_KEY = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
_SEALED = "59835d98cc4273f5c2a74fcfa0d5f891a79aa18e876d20a3d57325f1617e5abb"
_RESYN = (
    "404142434445464748494a4b4c4d4e4f1e6be8d60845b7e20ca7de5e4d64ff06"
    + bytes(range(128, 160)).hex()
    + "07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c"
)


def _syn(key_id: str) -> str:
    return f"7f6600010200000a000000010000004a0008{key_id}{_SYN_BODY}"


REFERENCE: Final[dict[str, dict[str, Any]]] = {
    "syn": {"hex": "7f660001000000000000000100000040" + _SYN_BODY, "expect": {}},
    "ack": {
        "hex": "7f660002000000000000000100000060" + _RANDOM_S + _ACK_KEY + _SEALED,
        "expect": {"mode": 0},
    },
    "syn_pinned": {"hex": _syn("3cd8523e1f82bdbf"), "expect": {}},
    "syn_psk": {"hex": _syn("d527a36e52dd2851"), "expect": {}},
    "resyn": {"hex": "7f6600010100002200000001000000620020" + _RESYN, "expect": {}},
}
"""The anonymous handshake, and the SYNs of the other modes."""


class Handshake(NamedTuple):
    """A SYN, its ACK, and what they agree on."""

    syn: bytes
    syn_frame: Frame
    keys: SessionKeys
    sid: bytes
    resumption: bytes | None


def private_for(public: bytes, context: Context) -> bytes | None:
    """Return a private key of some vector, by its public key."""
    known: dict[bytes, bytes] = context.cached(
        "magline private keys",
        lambda: {
            x25519_public(key): key for key in [*map(bytes.fromhex, _PRIVATES), *context.keys32()]
        },
    )
    return known.get(public)


def _frame(raw: dict[str, Any], cls: type) -> Frame | None:
    try:
        frame = PROTOCOL.decode(bytes.fromhex(raw["hex"])).message
    except (ValueError, NeedMore, WireError):
        return None
    return frame if isinstance(frame, Frame) and isinstance(frame.body, cls) else None


def _named(name: str, context: Context) -> dict[str, Any]:
    found = context.find("magline", name) or REFERENCE.get(name)
    if found is None:
        raise VectorFailure(f"unknown vector {name!r}")
    return found


def _syns(expect: Expect, mode: int, context: Context) -> Iterator[tuple[dict[str, Any], Frame]]:
    """Yield the SYNs that an ACK may answer."""
    if "answers" in expect:
        candidates = [_named(expect.text("answers"), context)]
    else:
        candidates = [*context.of("magline"), *REFERENCE.values()]
    for raw in candidates:
        frame = _frame(raw, Syn)
        if frame is None or (frame.resume is not None) != bool(mode & Mode.RESUME):
            continue
        if mode & Mode.RESUME or (frame.key_id is not None) == bool(mode):
            yield raw, frame


def agree(ack: bytes, expect: Expect, context: Context) -> Handshake:
    """Return the handshake that an ACK ends. Raises DecodeError `handshake_failed` for a wrong tag.

    Reads `mode` and the secrets that belong to it from `expect`.
    """
    mode = expect.number("mode") if "mode" in expect else 0
    secrets: dict[str, bytes] = {}
    if "server_static_public" in expect:
        secrets["server_public"] = expect.octets("server_static_public")
    if "psk_hex" in expect:
        secrets["psk"] = expect.octets("psk_hex")
    for raw, frame in _syns(expect, mode, context):
        assert isinstance(frame.body, Syn)
        private = private_for(frame.body.public_key, context)
        if private is None:
            continue
        resumption = _resumption(raw, context) if mode & Mode.RESUME else None
        syn = bytes.fromhex(raw["hex"])
        if resumption is not None:
            secrets["resumption"] = resumption
        try:
            keys = client_keys(mode=Mode(mode), private=private, syn=syn, ack=ack, **secrets)
            return Handshake(syn, frame, keys, open_sid(keys, ack), resumption)
        except DecodeError:
            continue
        except WireError as error:
            raise VectorFailure(f"expect.mode: {error}") from None
    raise DecodeError("handshake_failed", "ack", None, "the tag is wrong for every SYN")


def _resumption(raw: dict[str, Any], context: Context) -> bytes:
    """Return the resumption secret of a reSYN: its own, or that of the reference session."""
    if "resumption_secret" in raw["expect"]:
        return hex_bytes(raw["expect"]["resumption_secret"], "resumption_secret")
    return keys_of("ack", context).res


def keys_of(name: str, context: Context) -> SessionKeys:
    """Return the keys of the handshake that the ACK of a vector ends."""

    def derive() -> SessionKeys:
        raw = _named(name, context)
        if _frame(raw, Ack) is None:
            raise VectorFailure(f"vector {name!r} is not an ACK")
        try:
            return agree(bytes.fromhex(raw["hex"]), Expect(raw["expect"]), context).keys
        except DecodeError as error:
            raise VectorFailure(f"vector {name!r}: {error}") from None

    keys: SessionKeys = context.cached(("magline keys", name), derive)
    return keys


def keys_view(keys: SessionKeys) -> dict[str, str]:
    """Return every value of the key schedule, as vectors name them."""
    view = {name.upper(): getattr(keys, name).hex() for name in ("k", "nk", "th", "prk")}
    for name in keys.__dataclass_fields__:
        if name not in ("mode", "k", "nk", "th", "prk"):
            view[name] = getattr(keys, name).hex()
    return view


# -- one vector ------------------------------------------------------------------------------------


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
"""The error number sent to the peer."""
_POLICIES: Final = ("control_auth=prefer", "control_auth=require")


def run(raw: dict[str, Any], context: Context) -> None:
    """Check one vector."""
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
            raise VectorFailure(f"hex: re-encoded as {PROTOCOL.encode(frame).hex()}")
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
        """Check a SYN; one that resumes proves that it knows the session's secret."""
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
        """Check an ACK: both sides derive the same keys."""
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
            raise VectorFailure("hex: sealing the session id gives other bytes")
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
                raise VectorFailure("the server derives other keys than the client")

    def pair(self, key: str, public: bytes) -> None:
        """Check that a private key in the vector belongs to a public one."""
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
        """Process a frame in a session; return the plaintext of a data frame."""
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
                raise VectorFailure("hex: sealing the plaintext gives other bytes")
            return opened.data
        self.auth = cipher.open_control(self.data)
        if self.auth == "absent" and policy == "control_auth=require":
            raise DecodeError("bad_record", "auth")
        if self.auth == "valid" and again.seal_control(self.data) != self.data:
            raise VectorFailure("hex: tagging the frame gives other bytes")
        return None

    def before_keys(self, frame: Frame) -> None:
        """Process a handshake frame: a server the SYN, a client the ACK."""
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
        expected = self.expect.text("error", CLASSES)
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
        if got != expected:
            raise self.expect.fail("error", f"expected {expected}, got {got}")
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
            check_prefixes(_decode, self.data, lambda error: classify(ERRORS, error) == expected)

    def several(self) -> None:
        """Check frames that arrive together."""
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
