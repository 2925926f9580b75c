"""Key logs, secrets, and what they open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirelake.capture.decode import decryption as keys_module
from wirelake.capture.decode.decryption import Decrypted, Decryptor, KeyRing
from wirelake.protocols import registry
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.sealing import ContentOpener, ContentSealer, HipushContent
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE_PROTOCOL
from wirelake.protocols.magline.records import DirectionKeys, RecordCipher
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import PROTOCOL as TNY_PROTOCOL
from wirelake.protocols.tny.transform import PacketContext, TransformConfig
from wirelake.records.message import Describer
from wirelake.wire.errors import DecodeError

COMET = {"protocol": "comet", "content_key": "11" * 32}
TNY = {"protocol": "tny", "security_keys": ["throw-away"]}
MAGLINE = {"protocol": "magline", "c2s_enc": "22" * 32, "c2s_iv": "33" * 12}


def line(base: dict[str, Any], **more: Any) -> str:
    return json.dumps({**base, **more})


def ring(*lines: str) -> KeyRing:
    made = KeyRing()
    for each in lines:
        made.add(each)
    return made


def openings(keys: KeyRing, protocol: str, connection: int = 5, dialect: str = "seed") -> Decryptor:
    return Decryptor(keys, Describer(registry.find(protocol), dialect), connection)


# -- lines -----------------------------------------------------------------------------------


def test_lines_are_found_by_what_they_are_for() -> None:
    found = ring(
        line(TNY), line(TNY, connection=5, verify=True), line(MAGLINE, client_random="AB" * 32)
    )
    assert [each.get("verify") for each in found.candidates([("tny", "connection", 5)])] == [True]
    assert found.candidates([("tny", "", "")]) == [{"security_keys": ["throw-away"]}]
    assert len(found.candidates([("magline", "client_random", "ab" * 32)])) == 1
    assert found.candidates([("comet", "", "")]) == []


def test_the_newest_comes_first_and_copies_count_once() -> None:
    texts = [line(COMET, client_id="p", content_key=f"{n:02x}" * 32) for n in (1, 2, 1)]
    made = ring(*texts)
    found = made.candidates([("comet", "client_id", "p")])
    assert [each["content_key"][:2] for each in found] == ["02", "01"]
    assert made.version == 2


def test_a_file_may_have_comments_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(f"# of the test\n\n{line(TNY)}\n")
    made = KeyRing()
    made.load(path)
    assert made.version == 1


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("7", "expected a JSON object"),
        ('{"content_key": "00"}', "expected a JSON object with a protocol"),
        (line(TNY, protocol="smtp"), "unknown protocol 'smtp'"),
        (line(TNY, protocol="esnp"), "protocol esnp has no keys"),
        ('{"protocol": "tny"}', "missing keys"),
        (line(COMET, content_key="zz"), "content_key: not hexadecimal"),
        (line(COMET, content_key="00"), "expected exactly 32 bytes"),
        (line(COMET, client_id=7), "client_id: expected a string"),
        (line(COMET, connection="7"), "connection: expected an integer"),
        (line(TNY, connection=True), "connection: expected an integer"),
    ],
)
def test_lines_that_are_none(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "keys.jsonl"
    path.write_text(f"\n{text}\n")
    with pytest.raises(ValueError, match=wrong) as caught:
        KeyRing().load(path)
    assert f"{path}, line 2: " in str(caught.value)
    made = KeyRing()
    (problem,) = made.add_secrets(f"{line(TNY)}\n{text}\n{line(MAGLINE)}\n")
    assert problem.startswith("line 2 of the secrets: ")
    assert made.version == 2


def test_secrets_of_captures_are_evicted_before_key_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "KEPT_SECRETS", 2)
    made = ring(line(COMET, client_id="p", content_key="aa" * 32))
    for n in range(4):
        made.add_secrets(line(COMET, client_id="p", content_key=f"{n:02x}" * 32))
    found = made.candidates([("comet", "client_id", "p")])
    assert [each["content_key"][:2] for each in found] == ["03", "02", "aa"]


def test_openers_of_protocols() -> None:
    assert registry.find("esnp").opener is None
    assert registry.find("relay").opener is None
    assert registry.find("magline").opener.__module__.endswith("magline.records")


# -- comet -----------------------------------------------------------------------------------


def notification(content: bytes) -> comet.Notification:
    return comet.Notification(msg_type=1, msg_id="n1", content=content, ts=9)


def sealed(key: bytes, content: bytes) -> comet.Notification:
    return notification(ContentSealer(key).seal(content, msg_type=1, msg_id="n1", ts=9))


def test_sealed_comet_content_is_recognised_by_its_first_bytes() -> None:
    without = openings(KeyRing(), "comet")
    assert without.decrypt(notification(b"in clear"), b"", "s2c") == Decrypted({}, None, False)
    assert without.decrypt(sealed(bytes(32), b"text"), b"", "s2c").sealed
    assert not without.decrypt(comet.Ok(), b"", "s2c").sealed


def test_comet_keys_are_found_by_the_client() -> None:
    keys = [bytes([n]) * 32 for n in (1, 2, 3)]
    made = ring(*(line(COMET, client_id="p", content_key=key.hex()) for key in keys))
    found = openings(made, "comet")
    assert found.decrypt(sealed(keys[0], b"x"), b"", "s2c").sealed
    found.decrypt(comet.Auth(client_id="p", token=""), b"", "c2s")
    for key in keys:  # whichever of the client's keys it is
        assert found.decrypt(sealed(key, b"text"), b"", "s2c").body == b"text"
    assert found.decrypt(sealed(keys[0], b"\xff\xfe"), b"", "s2c").body == b"\xff\xfe"
    with pytest.raises(DecodeError, match="bad_record"):
        found.decrypt(sealed(bytes(32), b"text"), b"", "s2c")


def test_the_key_that_fits_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [bytes([n]) * 32 for n in range(20)]
    made = ring(*(line(COMET, connection=5, content_key=key.hex()) for key in keys))
    tries = 0
    peek = ContentOpener.peek

    def counting(self: ContentOpener, *arguments: Any, **more: Any) -> tuple[int, bytes]:
        nonlocal tries
        tries += 1
        return peek(self, *arguments, **more)

    monkeypatch.setattr(ContentOpener, "peek", counting)
    found = openings(made, "comet")
    for _ in range(10):
        assert found.decrypt(sealed(keys[0], b"text"), b"", "s2c").body == b"text"
    assert tries == 20 + 9


def test_in_hipush_a_key_means_sealed_content() -> None:
    key = bytes(range(8))
    message = notification(HipushContent(key, legacy_hipush=True).seal(b"text"))
    without = openings(KeyRing(), "comet", dialect="hipush")
    assert without.decrypt(message, b"", "s2c") == Decrypted({}, None, False)
    made = ring(json.dumps({"protocol": "comet", "connection": 5, "des_key": key.hex()}))
    assert openings(made, "comet", dialect="hipush").decrypt(message, b"", "s2c").body == b"text"
    assert openings(made, "comet", 6, dialect="hipush").decrypt(message, b"", "s2c").body is None


def test_keys_of_another_dialect_are_passed_over() -> None:
    made = ring(json.dumps({"protocol": "comet", "connection": 5, "des_key": "00" * 8}))
    assert openings(made, "comet").decrypt(sealed(bytes(32), b"x"), b"", "s2c").sealed


# -- tny -------------------------------------------------------------------------------------


def packet(context: PacketContext, text: bytes) -> tny.Packet:
    message = TNY_PROTOCOL.codec().write_message(tny.Message(id=1, body=text))
    made = context.seal(77, message, random=bytes)
    body = tny.Envelope(access_id=77, number=made.number, content=made.content)
    return tny.Packet(verify=made.verify, encrypt=made.encrypt, waste=made.waste, body=body)


def test_tny_without_options_needs_no_key() -> None:
    found = openings(KeyRing(), "tny")
    opened = found.decrypt(packet(PacketContext("seed"), b"hello"), b"", "c2s")
    assert not opened.sealed
    assert opened.parts["message"].body == b"hello"
    assert found.decrypt(tny.Packet(body=tny.Ping()), b"", "c2s") == Decrypted({}, None, False)


def test_tny_packets_with_options_stay_sealed_without_a_key() -> None:
    config = TransformConfig(security_keys=("throw-away",), encrypt=True, verify=True)
    context = PacketContext("seed", config)
    first, second = packet(context, b"one"), packet(context, b"two")
    assert openings(KeyRing(), "tny").decrypt(first, b"", "c2s") == Decrypted({}, None, True)
    found = openings(ring(line(TNY)), "tny")
    # The first packet may be missing, and the other direction counts by itself.
    assert found.decrypt(second, b"", "c2s").parts["message"].body == b"two"
    assert found.decrypt(first, b"", "s2c").parts["message"].body == b"one"
    with pytest.raises(DecodeError, match="number_replayed"):
        found.decrypt(first, b"", "c2s")


# -- magline ---------------------------------------------------------------------------------


def frame(body: Any) -> tuple[magline.Frame, bytes]:
    message = magline.Frame(seq=3, body=body)
    return message, MAGLINE_PROTOCOL.encode(message)


def test_magline_keys_are_found_by_the_client_random() -> None:
    cipher = RecordCipher(DirectionKeys(b"\x22" * 32, b"\x33" * 12, bytes(32)))
    _, plain = frame(magline.Req(business_cmd=7, hmac=bytes(16), data=b"hello"))
    raw = cipher.seal_data(plain)
    request = MAGLINE_PROTOCOL.decode(raw).message
    found = openings(ring(line(MAGLINE, client_random="ab" * 32)), "magline")
    assert found.decrypt(request, raw, "c2s") == Decrypted({}, None, True)
    syn, syn_raw = frame(magline.Syn(random=b"\xab" * 32, public_key=bytes(32)))
    assert found.decrypt(syn, syn_raw, "c2s") == Decrypted({}, None, False)
    opened = found.decrypt(request, raw, "c2s")
    assert (opened.body, opened.sealed) == (b"hello", False)


def test_keys_that_come_later_are_used_from_then_on() -> None:
    made = KeyRing()
    found = openings(made, "comet")
    message = sealed(b"\x11" * 32, b"text")
    assert found.decrypt(message, b"", "s2c").sealed
    assert made.add_secrets(line(COMET, connection=5)) == []
    assert found.decrypt(message, b"", "s2c").body == b"text"


def test_a_key_log_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="keys: not a key log"):
        KeyRing().load(path)
