"""The magline adapter: kinds of vectors beyond those in the files, and what it must not let pass.

The keys in this file are throw-away test values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.excuses import EXCUSES
from tests.conformance.mutation import check

from wirelake.conformance.expectation import Context, VectorFailure
from wirelake.conformance.magline import (
    CLASSES,
    COMMANDS,
    ERRORS,
    REFERENCE,
    head_view,
    keys_of,
    keys_view,
    run,
)
from wirelake.conformance.runner import Case, Suite
from wirelake.protocols.magline import layout
from wirelake.protocols.magline.handshake import (
    Mode,
    SessionKeys,
    bind_syn,
    seal_sid,
    server_key_id,
    server_keys,
    x25519_public,
)
from wirelake.protocols.magline.layout import Frame, Resume
from wirelake.protocols.magline.protocol import PROTOCOL
from wirelake.protocols.magline.records import RecordCipher

FILE = Path(__file__).parents[1] / "vectors" / "magline.jsonl"
VECTORS = {
    raw["name"]: raw for raw in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
}
KEYS: SessionKeys = keys_of("ack", Context())
SECRET = VECTORS["resyn"]["expect"]["resumption_secret"]


def vector(expect: dict[str, Any], data: bytes, **more: Any) -> dict[str, Any]:
    plain = {"name": "some", "protocol": "magline", "origin": "hand-derived", "notes": ""}
    return {**plain, "direction": "c2s", "hex": data.hex(), "expect": expect, **more}


def outcome(raw: dict[str, Any], *others: dict[str, Any]) -> str | None:
    try:
        run(raw, Context(vectors={"magline": [raw, *others]}))
    except VectorFailure as failure:
        return str(failure)
    return None


def accepted(frame: bytes, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = PROTOCOL.decode(frame).message.body
    command = COMMANDS[type(body)].name
    return {"ok": True, "command": command, "head": head_view(frame), "fields": fields, **more}


def refused(error: str, number: int, **more: Any) -> dict[str, Any]:
    return {"ok": False, "error": error, "err_no": number, "fatal": True, **more}


def control(seq: int, body: Any, keys: Any = KEYS.c2s, **options: Any) -> bytes:
    frame = PROTOCOL.encode(Frame(seq=seq, auth=bytes(16), body=body, **options))
    return RecordCipher(keys).seal_control(frame)


def data_frame(seq: int, body: Any, keys: Any = KEYS.c2s, **options: Any) -> bytes:
    return RecordCipher(keys).seal_data(PROTOCOL.encode(Frame(seq=seq, body=body, **options)))


def request(text: bytes, cmd: int = 7) -> layout.Req:
    return layout.Req(business_cmd=cmd, hmac=bytes(16), data=text)


ERR = control(9, layout.Err(business_cmd=1, error_number=15), KEYS.s2c, reply_to=3)
PIN = PROTOCOL.encode(Frame(seq=2, body=layout.Pin(ping_number=1)))
SYN = bytes.fromhex(VECTORS["syn"]["hex"])
ZERO_ACK = bytes.fromhex(VECTORS["ack"]["hex"])[:48] + bytes(64)
RESUMED = bytes.fromhex(VECTORS["resyn"]["hex"])

GOOD: dict[str, dict[str, Any]] = {
    "authenticated err with reply_to": vector(
        accepted(
            ERR, {"auth": "valid", "business_cmd": 1, "error_number": 15, "reply_to": 3},
            keys_of="ack",
        ),
        ERR, direction="s2c",
    ),
    "request in its turn": vector(
        accepted(
            data_frame(8, request(b"x" * 40)), {"business_cmd": 7, "hmac_state": "valid"},
            keys_of="ack", expected_seq=8, data_hex=(b"x" * 40).hex(),
        ),
        data_frame(8, request(b"x" * 40)),
    ),
    "bare pin under prefer": vector(
        accepted(
            PIN, {"auth": "absent", "ping_number": 1}, keys_of="ack", policy="control_auth=prefer"
        ),
        PIN,
    ),
    "tag that nobody can check": vector(
        accepted(control(2, layout.Pin(ping_number=1)), {"auth": "unverified", "ping_number": 1}),
        control(2, layout.Pin(ping_number=1)),
    ),
    "frames of a session": vector(
        {
            "ok": True,
            "frames": [
                accepted(
                    control(2, layout.Pin(ping_number=5)),
                    {"auth": "valid", "ping_number": 5}, keys_of="ack",
                ),
                accepted(
                    data_frame(3, request(b"")),
                    {"business_cmd": 7, "hmac_state": "valid"}, keys_of="ack", data_hex="",
                ),
            ],
        },
        control(2, layout.Pin(ping_number=5)) + data_frame(3, request(b"")),
    ),
    "other key": vector(
        {"ok": True, "primitive": "x25519", "private": "01" * 32,
         "public": "a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209"},
        b"\x01" * 32,
    ),
    "mac of the wrong direction": vector(
        refused("bad_record", 9, keys_of="ack", expected_seq=2),
        control(2, layout.Pin(ping_number=1), KEYS.s2c), name="sess_x",
    ),
    "server ping": vector(
        refused("bad_state", 6, keys_of="ack"), control(2, layout.Pin(ping_number=1), KEYS.s2c),
        name="sess_x", direction="s2c",
    ),
    "syn on a live connection": vector(refused("bad_state", 6, keys_of="ack"), SYN, name="sess_x"),
    "request before the handshake": vector(
        refused("bad_state", 6), data_frame(1, request(b"")), name="sess_x"
    ),
    "unknown session": vector(refused("session_unknown", 8), RESUMED, name="sess_x"),
    "ack with a zero key": vector(
        refused("handshake_failed", 7), ZERO_ACK, name="sess_x", direction="s2c"
    ),
    "ack with a bad tag": vector(
        refused("handshake_failed", 7),
        bytes.fromhex(VECTORS["ack"]["hex"])[:-1] + b"\0", name="sess_x", direction="s2c",
    ),
    "auth on a request": vector(
        refused("bad_option", 4), bytes.fromhex("7e660006000100120000000200000026") + bytes(38)
    ),
    "reply_to of three bytes": vector(
        refused("bad_option", 4),
        bytes.fromhex("7e66000700020005000000020000001900030000000000000000") + bytes(32),
        direction="s2c",
    ),
    "over a mebibyte": vector(
        refused("too_large", 5), bytes.fromhex("7e660006000000000000000200100001")
    ),
    "one byte": vector(
        {"ok": False, "error": "incomplete", "err_no": None, "fatal": False, "need": 15}, b"\x7f"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_other_vectors_of_the_same_kinds(name: str) -> None:
    assert outcome(GOOD[name]) is None


def pinned_resumption() -> tuple[dict[str, Any], dict[str, Any]]:
    """A reSYN in pinned mode and its ACK, which no file has."""
    static, private, server = b"\x11" * 32, bytes(range(1, 33)), bytes(range(33, 65))
    public = x25519_public(static)
    hello = Frame(
        seq=1,
        resume=Resume(sid=b"s" * 16, binder=bytes(16)),
        key_id=server_key_id(public),
        body=layout.Syn(random=b"c" * 32, public_key=x25519_public(private)),
    )
    secret = bytes.fromhex(SECRET)
    syn = bind_syn(secret, PROTOCOL.encode(hello))
    answer = layout.Ack(random=b"S" * 32, public_key=x25519_public(server), sealed_sid=bytes(32))
    clear = PROTOCOL.encode(Frame(seq=1, body=answer))[:-32]
    keys = server_keys(
        mode=Mode.RESUME | Mode.PINNED,
        private=server,
        syn=syn,
        ack_clear=clear,
        static_private=static,
        resumption=secret,
    )
    ack = clear + seal_sid(keys, clear, b"t" * 16)
    fields = {
        "random": (b"c" * 32).hex(),
        "public_key": x25519_public(private).hex(),
        "key_id": server_key_id(public).hex(),
        "resume_sid": (b"s" * 16).hex(),
        "binder": PROTOCOL.decode(syn).message.resume.binder.hex(),
    }
    first = vector(
        accepted(syn, fields, resumption_secret=SECRET, binder_valid=True), syn, name="resyn_pinned"
    )
    second = vector(
        accepted(
            ack,
            {
                "random": (b"S" * 32).hex(),
                "public_key": x25519_public(server).hex(),
                "sealed_sid": ack[-32:].hex(),
            },
            answers="resyn_pinned",
            mode=5,
            server_static_private=static.hex(),
            server_static_public=public.hex(),
            sid=(b"t" * 16).hex(),
            keys=keys_view(keys),
        ),
        ack,
        name="ack_pinned_resumed",
        direction="s2c",
    )
    return first, second


def test_resuming_in_pinned_mode() -> None:
    syn, ack = pinned_resumption()
    assert outcome(syn) is None
    assert outcome(ack, syn) is None
    assert outcome(ack) is not None


def test_alterations_of_them_are_noticed() -> None:
    checked = [raw for name, raw in GOOD.items() if name != "tag that nobody can check"]
    raws = [*checked, *pinned_resumption()]
    cases = [Case("file", n, raw) for n, raw in enumerate(raws, 1)]
    report = check(Suite(cases, context=Context(vectors={"magline": raws})), cases)
    assert report.failures == []
    assert report.tried > 1000


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (vector({**accepted(PIN, {}), "colour": 1}, PIN), "fields"),
    "unknown key after all": (
        vector(accepted(PIN, {"auth": "absent", "ping_number": 1}, colour=1), PIN), "expect.colour",
    ),
    "unknown direction": (vector(accepted(PIN, {}), PIN, direction="up"), "direction"),
    "wrong direction": (
        vector(accepted(PIN, {"auth": "absent", "ping_number": 1}), PIN, direction="s2c"),
        "direction",
    ),
    "unmentioned field": (vector(accepted(PIN, {"auth": "absent"}), PIN), "ping_number"),
    "missing fields": (vector({"ok": True}, PIN), "expect.fields"),
    "keys of nothing": (vector(accepted(PIN, {}, keys_of="nack"), PIN), "'nack'"),
    "keys of a syn": (vector(accepted(PIN, {}, keys_of="syn"), PIN), "not an ACK"),
    "unknown policy": (vector(accepted(PIN, {}, policy="none"), PIN), "policy"),
    "unknown class": (vector(refused("oops", 1), PIN), "expect.error"),
    "accepted after all": (vector(refused("bad_magic", 1), PIN), "got no error"),
    "other number": (vector(refused("bad_magic", 2), b"x"), "err_no"),
    "another primitive": (vector({"primitive": "rsa"}, b"x"), "primitive"),
    "not a private key": (vector({"primitive": "x25519", "public": ""}, b"x"), "hex"),
    "two frames": (vector(accepted(PIN, {}), PIN * 2), "stops at byte"),
    "frames left over": (
        vector(
            {"ok": True, "frames": [accepted(PIN, {"auth": "absent", "ping_number": 1})]}, PIN * 2
        ),
        "frames stop",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_must_not_pass(name: str) -> None:
    raw, text = BAD[name]
    found = outcome(raw)
    assert found is not None
    assert text in found
    assert "\n" not in found


def test_the_reference_handshake_is_that_of_the_file() -> None:
    for name, raw in REFERENCE.items():
        assert raw["hex"] == VECTORS[name]["hex"]
    assert keys_view(KEYS) == VECTORS["ack"]["expect"]["keys"]


def test_classes_and_excuses_are_named_once() -> None:
    assert len(CLASSES) == len(set(CLASSES))
    codes = [code for line in ERRORS for code in line.codes]
    assert len(codes) == len(set(codes))
    assert all(
        excuse.name.startswith("magline-") and excuse.reason for excuse in EXCUSES["magline"]
    )
