"""The comet adapter: kinds of vectors beyond those in the files, and what it must not let pass.

The keys in this file are throw-away test values.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from tests.conformance.excuses import EXCUSES
from tests.conformance.mutation import check

from wirelake.conformance.comet import (
    CLASSES,
    COMMANDS,
    ERRORS,
    REFERENCE,
    content_keys,
    des_key,
    run,
)
from wirelake.conformance.expectation import Context, VectorFailure
from wirelake.conformance.runner import Case, Suite
from wirelake.protocols.comet import layout
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.comet.sealing import ContentSealer, HipushContent, wrap_secret

FILE = Path(__file__).parents[1] / "vectors" / "comet.jsonl"
VECTORS = {
    raw["name"]: raw for raw in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
}
(KEY,) = content_keys(Context())
ILLEGAL = {"command": "error", "error_code": 4, "reason": "message format illegal"}


def vector(expect: dict[str, Any], data: bytes, **more: Any) -> dict[str, Any]:
    plain = {"name": "some", "protocol": "comet", "origin": "hand-derived", "notes": ""}
    return {**plain, "direction": "c2s", "hex": data.hex(), "expect": expect, **more}


def outcome(raw: dict[str, Any], *others: dict[str, Any]) -> str | None:
    try:
        run(raw, Context(vectors={"comet": [raw, *others]}))
    except VectorFailure as failure:
        return str(failure)
    return None


def good(message: Any, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    name, number = COMMANDS[type(message)]
    client = type(message) in (
        layout.Auth, layout.ExchangeKey, layout.Subscribe, layout.MessageAck, layout.ReportEnviron,
    )  # fmt: skip
    expect = {"ok": True, "command": name, "type": number, "fields": fields, **more}
    data = PROTOCOL.encode(message, dialect=more.get("dialect", "seed"))
    return vector(expect, data, direction="c2s" if client else "s2c")


def bad(error: str, data: str, direction: str = "c2s", **more: Any) -> dict[str, Any]:
    expect = {"ok": False, "error": error, "fatal": True, "frames_before": 0, **more}
    return vector(expect, bytes.fromhex(data), direction=direction)


def notification(content: bytes) -> layout.Notification:
    return layout.Notification(msg_type=9, msg_id="é", content=content, ts=7)


NOTE = {"msg_type": 9, "msg_id": "é", "ts": 7}


def sealed(counter: int) -> layout.Notification:
    sealer = ContentSealer(KEY)
    sealer.counter = counter - 1
    return notification(sealer.seal(b"text", msg_type=9, msg_id="é", ts=7))


DES = HipushContent(des_key(Context()), legacy_hipush=True)
TOPICS = tuple(f"@{n}" for n in range(9))

GOOD: dict[str, dict[str, Any]] = {
    "topic of 257": good(
        layout.Subscribe(topics=("@" + "a" * 256,)),
        {"topics_len": [257], "topics": ["@" + "a" * 256]}, args_valid=False, reply=ILLEGAL,
    ),
    "id that is not utf-8": good(
        layout.MessageAck(msg_ids=("\udcff",)), {"msg_ids_hex": ["ff"]},
        args_valid=False, reply=ILLEGAL,
    ),
    "environment without extra": good(
        layout.ReportEnviron(network_type=0, isp=0, phone_type="", extra=()),
        {"network_type": 0, "isp": 0, "phone_type": "", "extra": []}, args_valid=True,
    ),
    "phone type not utf-8": good(
        layout.ReportEnviron(network_type=0, isp=0, phone_type="\udcff", extra=()),
        {"network_type": 0, "isp": 0, "phone_type_hex": "ff", "extra": []},
        args_valid=False, reply=ILLEGAL,
    ),
    "topics by their ends": good(
        layout.TopicList(topics=TOPICS), {"count": 9, "first": "@0", "last": "@8"}
    ),
    "empty list": good(layout.MessageList(messages=()), {"messages": []}),
    "content not utf-8": good(notification(b"\xff"), {**NOTE, "content_hex": "ff"}),
    "empty key": good(
        layout.AuthSuccess(encrypt_key=b""),
        {"encrypt_key": "", "encrypt_key_len": 0, "encrypt_key_kind": "empty"},
    ),
    "third sealed notification": good(
        sealed(3), {**NOTE, "content_hex": sealed(3).content.hex()},
        content_key_hex=KEY.hex(), counter=3, decrypted_content="text",
    ),
    "sealed list": good(
        layout.MessageList(messages=(sealed(1), sealed(2))),
        {"messages": [{**NOTE, "content_hex": sealed(n).content.hex()} for n in (1, 2)]},
        content_key_hex=KEY.hex(), counter=[1, 2], decrypted_content=["text", "text"],
    ),
    "hipush": good(
        layout.Notification(msg_type=9, msg_id="é", job_id="j", content=DES.seal(b"text"), ts=7),
        {**NOTE, "job_id": "j", "content": "text"}, dialect="hipush",
    ),
    "unknown type after two frames": bad(
        "unknown_type", "0001060001050001ee", frames_before=2,
        frames=[
            {"ok": True, "command": "heartbeat", "type": 6, "fields": {}},
            {"ok": True, "command": "get_message_list", "type": 5, "fields": {}},
        ],
    ),
    "length 0 after a frame": bad("frame_error", "0001060000", frames_before=1),
    "count past the end": bad("truncated", "000203ff"),
    "list item past the end": bad("truncated", "0006030100054061"),
    "no isp": bad("truncated", "00020800"),
    "trailing heartbeat": bad("trailing", "000206aa"),
    "incomplete": bad("incomplete", "00050301", fatal=False, need=3),
    "bad arguments": bad("bad_args", "00020300", fatal=False, reply=ILLEGAL),
    "short secret": bad(
        "bad_key", "0004010001ff",
        reply={"command": "error", "error_code": 4, "reason": "bad key"},
    ),
    "zero point": bad("bad_key", "0053010050" + "00" * 80),
    "unsealed content": bad(
        "bad_record", PROTOCOL.encode(notification(b"plain")).hex(), "s2c",
        content_key_hex=KEY.hex(),
    ),
    "sealed content out of order": bad(
        "bad_record", PROTOCOL.encode(sealed(2)).hex(), "s2c", content_key_hex=KEY.hex()
    ),
    "unknown key": bad("bad_key", "0006020003010203", "s2c"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_other_vectors_of_the_same_kinds(name: str) -> None:
    assert outcome(GOOD[name]) is None


def test_the_dialect_may_be_next_to_expect() -> None:
    raw = GOOD["hipush"]
    expect = {key: value for key, value in raw["expect"].items() if key != "dialect"}
    assert outcome({**raw, "expect": expect, "dialect": "hipush"}) is None
    assert outcome({**raw, "expect": expect}) is not None


def test_alterations_of_them_are_noticed() -> None:
    cases = [Case("file", n, raw) for n, raw in enumerate(GOOD.values(), 1)]
    report = check(Suite(cases), cases)
    assert report.failures == []
    assert report.tried > 500


def test_an_rsa_exchange_of_another_key() -> None:
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    offer = good(
        layout.AuthSuccess(encrypt_key=public),
        {"encrypt_key": public.hex(), "encrypt_key_kind": "spki-rsa-2048", "encrypt_key_len": 294},
    )
    secret = bytes(range(32))
    wrapped = wrap_secret(public, secret, auth=b"", auth_success=b"", eph_private=bytes(32))
    answer = good(
        layout.ExchangeKey(secret_key=wrapped),
        {"secret_key": wrapped.hex()},
        unwrapped_hex=secret.hex(),
        rsa_private_pkcs8_hex=private.hex(),
    )
    assert outcome(offer) is None
    assert outcome(answer, offer) is None
    other = {**answer["expect"], "unwrapped_hex": "00" * 32}
    assert outcome({**answer, "expect": other}, offer) is not None


BEAT = bytes.fromhex("000106")
OK_BEAT = {"ok": True, "command": "heartbeat", "type": 6, "fields": {}}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (vector({**OK_BEAT, "colour": 1}, BEAT), "expect.colour"),
    "unknown field": (vector({**OK_BEAT, "fields": {"a": 1}}, BEAT), "expect.fields.a"),
    "unknown direction": (vector(OK_BEAT, BEAT, direction="up"), "direction"),
    "unknown dialect": (vector({**OK_BEAT, "dialect": "x"}, BEAT), "dialect"),
    "missing fields": (vector({"ok": True}, BEAT), "expect.fields"),
    "unmentioned field": (
        good(layout.Error(error_code=1, reason="r"), {"error_code": 1}), "not in the vector",
    ),
    "reply to a good command": (vector({**OK_BEAT, "reply": ILLEGAL}, BEAT), "expect.reply"),
    "two frames": (vector(OK_BEAT, BEAT * 2), "stops at byte"),
    "frames left over": (vector({"ok": True, "frames": [OK_BEAT]}, BEAT * 2), "frames stop"),
    "unknown class": (bad("oops", "00"), "expect.error"),
    "accepted after all": (bad("trailing", "000106"), "got no error"),
    "other frames before": (bad("unknown_type", "0001060001ee"), "frames_before"),
    "fatal after all": (bad("incomplete", "00"), "fatal"),
    "another content key": (
        good(
            sealed(1), {**NOTE, "content_hex": sealed(1).content.hex()}, content_key_hex="00" * 32
        ),
        "no exchange",
    ),
    "not a private key": (
        good(
            layout.ExchangeKey(secret_key=b"x"), {"secret_key": "78"}, rsa_private_pkcs8_hex="00"
        ),
        "rsa_private_pkcs8_hex",
    ),
    "plain content of hipush": (
        good(
            layout.Notification(msg_type=9, msg_id="é", content=b"plain", ts=7),
            {**NOTE, "job_id": "", "content": "plain"}, dialect="hipush",
        ),
        "content",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_must_not_pass(name: str) -> None:
    raw, text = BAD[name]
    found = outcome(raw)
    assert found is not None
    assert text in found
    assert "\n" not in found


def test_the_reference_transcript_is_that_of_the_file() -> None:
    assert REFERENCE["auth"] == VECTORS["auth"]["hex"]
    assert REFERENCE["auth_success"] == VECTORS["auth_success_x25519"]["hex"]
    assert REFERENCE["exchange_key"] == VECTORS["exchange_key_x25519"]["hex"]
    assert KEY.hex() == VECTORS["exchange_key_x25519"]["expect"]["content_key_hex"]
    legacy = VECTORS["legacy_exchange_key_rsa512_des"]
    context = Context(vectors={"comet": [legacy]})
    assert des_key(context).hex() == legacy["expect"]["unwrapped_hex"]
    assert des_key(context) == des_key(Context())


def test_classes_and_excuses_are_named_once() -> None:
    assert len(CLASSES) == len(set(CLASSES))
    codes = [code for line in ERRORS for code in line.codes]
    assert len(codes) == len(set(codes))
    assert all(excuse.name.startswith("comet-") and excuse.reason for excuse in EXCUSES["comet"])
