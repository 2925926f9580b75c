"""Bodies that are opened one by one, while kernels have read all the rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.lake.lakes import columnar_rows, reference_rows, unlike

from capture.tcp_made import RST, Call, write
from wirelake.capture.decode.decryption import KeyRing
from wirelake.capture.decode.reference import read_tables
from wirelake.capture.tcp.assembly import OVERDUE_NS, WAITING_NS
from wirelake.columnar.decode.sealed_parts import ConnectionKeys, decrypt_rows
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.protocols import registry
from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.protocol import PROTOCOL as COMET_PROTOCOL
from wirelake.protocols.comet.sealing import ContentSealer, HipushContent
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE_PROTOCOL
from wirelake.protocols.magline.records import DirectionKeys, RecordCipher
from wirelake.records.message import Describer
from wirelake.wire.errors import WireError

from .differential import differences

KEY, OTHER = bytes([7]) * 32, bytes([8]) * 32
"""Keys that open nothing but what is sealed here."""
PORT = 9620
_SIZES = (("enc", 32), ("iv", 12))


def pushed(number: int, key: bytes = KEY, text: bytes = b"news") -> bytes:
    sealer = ContentSealer(key)
    sealer.counter = number
    content = sealer.seal(text, msg_type=1, msg_id="n", ts=0)
    return COMET_PROTOCOL.encode(comet.Notification(msg_type=1, msg_id="n", content=content, ts=0))


def in_clear(text: bytes) -> bytes:
    return COMET_PROTOCOL.encode(comet.Notification(msg_type=1, msg_id="n", content=text, ts=0))


def captured(path: Path, *frames: bytes) -> int:
    """Writes a capture of these frames in one packet; gives the id of their connection."""
    write(path, Call(PORT).open().say("s2c", b"".join(frames)).close().packets)
    rows = [row for table, row in read_tables([path]) if table == "messages"]
    return int(rows[0]["connection"])


def key_log(path: Path, **keys: object) -> Path:
    path.write_text(json.dumps({"protocol": "comet", **keys}))
    return path


def bodies(path: Path, log: Path) -> list[tuple[bool, bytes | None]]:
    """What the kernels make of the messages, in their order."""
    found: list[tuple[bool, bytes | None]] = []
    for _, batch in CapturePipeline([path], tables=("messages",), keys=[log]).batches():
        assert isinstance(batch, pa.RecordBatch)
        rows = batch.select(["sealed", "body"]).to_pylist()
        found += [(row["sealed"], row["body"]) for row in rows]
    return found


def test_what_opens_stays_in_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    texts = [b"one", b"", b"\xff\xfe", b"four" * 1_000]
    sealed = [pushed(number, text=text) for number, text in enumerate(texts)]
    connection = captured(path, in_clear(b"a"), *sealed, in_clear(b"b"))
    log = key_log(tmp_path / "keys.jsonl", connection=connection, content_key=KEY.hex())
    wanted = [b"a", *texts, b"b"]
    assert bodies(path, log) == [(False, each) for each in wanted]
    assert differences([str(path)], keys=[str(log)]) == []


def test_one_that_does_not_open_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    broken = pushed(1)[:-9] + b"?" + pushed(1)[-8:]
    connection = captured(path, pushed(0), broken, pushed(2), pushed(3, OTHER))
    log = key_log(tmp_path / "keys.jsonl", connection=connection, content_key=KEY.hex())
    assert bodies(path, log) == [(False, b"news")] * 2
    assert differences([str(path)], keys=[str(log)]) == []


def test_without_a_key_of_its_own_it_stays_sealed(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    captured(path, pushed(0), in_clear(b"a"), pushed(1))
    log = key_log(tmp_path / "keys.jsonl", client_id="somebody else", content_key=KEY.hex())
    assert bodies(path, log) == [(True, None), (False, b"a"), (True, None)]
    assert differences([str(path)], keys=[str(log)]) == []


def test_rows_are_opened_kept_or_faults() -> None:
    def open_row(row: int) -> bytes | None:
        if row == 3:
            raise WireError("bad_record")
        return None if row == 2 else f"row {row}".encode()

    body = pa.array([b"x", b"sealed", b"sealed", b"sealed", None], pa.binary())
    rows = np.array([False, True, True, True, False])
    found, stayed, wrong = decrypt_rows(body, rows, rows, open_row)
    assert found.to_pylist()[:2] == [b"x", b"row 1"]
    assert found.to_pylist()[4] is None
    assert stayed.tolist()[:3] == [False, False, True]
    assert wrong.tolist() == [False, False, False, True, False]


def test_keys_are_those_of_the_sender_where_the_capture_takes_it_for_the_server(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.pcap"
    cipher = RecordCipher(DirectionKeys(KEY, bytes(12), OTHER))
    call = Call(40_001, 50_001)
    for seq in range(1, 7):
        request = magline.Frame(seq=seq, body=magline.Req(101, bytes(16), b"x"))
        call.say("s2c", cipher.seal_data(MAGLINE_PROTOCOL.encode(request)))
    # Neither port is known and no SYN was captured, so the end with the higher port counts as the
    # client, and the request comes from the server.
    write(path, call.packets)
    ends = {"c2s_enc": KEY.hex(), "s2c_enc": OTHER.hex(), "c2s_iv": "00" * 12, "s2c_iv": "00" * 12}
    log = tmp_path / "keys.jsonl"
    log.write_text(json.dumps({"protocol": "magline", **ends}))
    assert bodies(path, log) == [(False, b"x")] * 6
    assert differences([str(path)], keys=[str(log)]) == []


@pytest.mark.parametrize("whole", [True, False])
def test_keys_open_what_comes_after_their_name(tmp_path: Path, whole: bool) -> None:
    """Whatever the windows, and where a message was lost between."""
    keys = {bytes([number]) * 32: key for number, key in enumerate((KEY, OTHER))}
    call = Call(MAGLINE_PROTOCOL.port or 0)
    call = call.open() if whole else call
    lines = []
    for number, (random, key) in enumerate(keys.items()):
        cipher = RecordCipher(DirectionKeys(key, bytes(12), KEY))
        syn = MAGLINE_PROTOCOL.encode(magline.Frame(seq=1, body=magline.Syn(random, bytes(32))))
        for seq, part in enumerate((syn[:9], syn[9:]), 1 + 2 * number):
            push = magline.Frame(seq=seq, body=magline.Psh(501, bytes(16), b"x"))
            call.say("c2s", part)
            call.say("s2c", cipher.seal_data(MAGLINE_PROTOCOL.encode(push)))
        ways = {"s2c_enc": key.hex(), "s2c_iv": "00" * 12}
        lines.append(json.dumps({"protocol": "magline", "client_random": random.hex(), **ways}))
    path = write(tmp_path / "a.pcap", call.close().packets)
    log = tmp_path / "keys.jsonl"
    log.write_text("\n".join(lines))
    wanted = reference_rows([path], [str(log)])
    for window_bytes in (1, 200, 1 << 20):
        assert unlike(columnar_rows([path], [str(log)], window_bytes), wanted) == []
    opened = [body for _, body in bodies(path, log)]
    assert opened.count(b"x") == (2 if whole else 1)


@pytest.mark.parametrize("shown_by", ["next packet", "other connections", "reset"])
def test_keys_open_what_is_given_up_after_their_name(tmp_path: Path, shown_by: str) -> None:
    """Messages behind a gap are read when the gap is given up, with the keys known by then."""
    random = bytes(32)
    cipher = RecordCipher(DirectionKeys(KEY, bytes(12), OTHER))
    pushes = [
        cipher.seal_data(
            MAGLINE_PROTOCOL.encode(magline.Frame(seq=seq, body=magline.Psh(501, bytes(16), b"x")))
        )
        for seq in range(1, 6)
    ]
    call = Call(MAGLINE_PROTOCOL.port or 0).open().lose("s2c", 100)
    for each in pushes[:3]:
        call.say("s2c", each)
    syn = magline.Frame(seq=1, body=magline.Syn(random, bytes(32)))
    call.say("c2s", MAGLINE_PROTOCOL.encode(syn))
    if shown_by == "reset":
        call.packet("c2s", call.sent["c2s"], flags=RST)
    elif shown_by == "next packet":
        call.now_ns += WAITING_NS
        call.say("s2c", pushes[3])
    else:
        other = Call(9_999, now_ns=call.now_ns)
        for _ in range(4):
            other.now_ns += OVERDUE_NS
            other.say("c2s", b"?")
        call.packets += other.packets
        call.now_ns = other.now_ns
    if shown_by != "reset":
        call.say("s2c", pushes[4]).close()
    path = write(tmp_path / "a.pcap", call.packets)
    keys = {"client_random": random.hex(), "s2c_enc": KEY.hex(), "s2c_iv": "00" * 12}
    log = tmp_path / "keys.jsonl"
    log.write_text(json.dumps({"protocol": "magline", **keys}))
    wanted = reference_rows([path], [str(log)])
    for window_bytes in (1, 200, 1 << 20):
        assert unlike(columnar_rows([path], [str(log)], window_bytes), wanted) == []
    assert [body for _, body in bodies(path, log)].count(b"x") >= 3


def test_closed_connections_are_removed() -> None:
    ring = KeyRing()
    ways = {f"{way}_{name}": "00" * size for way in ("c2s", "s2c") for name, size in _SIZES}
    for connection in (1, 2):
        ring.add(json.dumps({"protocol": "magline", "connection": connection, **ways}))
    keys = ConnectionKeys(registry.find("magline"), ring)
    first = keys.cipher(1, 0)
    assert first is not None
    assert keys.cipher(1, 0) is first
    keys.key_names = {1: ("client_random", "aa"), 2: ("client_random", "bb")}
    keys.forget([1, 1, 3])
    assert keys.key_names == {2: ("client_random", "bb")}
    assert keys.cipher(1, 0) is not first


# -- lists of notifications ------------------------------------------------------------------


def listed(*contents: bytes) -> bytes:
    items = tuple(
        comet.Notification(msg_type=1, msg_id="n", content=content, ts=0) for content in contents
    )
    return COMET_PROTOCOL.encode(comet.MessageList(messages=items))


def sealed_content(number: int, key: bytes = KEY, text: bytes = b"news") -> bytes:
    sealer = ContentSealer(key)
    sealer.counter = number
    return bytes(sealer.seal(text, msg_type=1, msg_id="n", ts=0))


def listed_contents(path: Path, **options: object) -> list[tuple[bool, list[bytes]]]:
    """What both readers make of the lists: whether something is sealed, and their contents."""
    assert differences([str(path)], **options) == []
    rows = [row for table, row in read_tables([path], **options) if table == "messages"]  # type: ignore[arg-type]
    return [
        (row["sealed"], [each["content"] for each in row["comet"]["message_list"]["messages"]])
        for row in rows
    ]


def test_items_of_a_list_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    first, second = sealed_content(0), sealed_content(1, text=b"more")
    foreign = sealed_content(2, OTHER)
    connection = captured(
        path, listed(), listed(b"plain"), listed(first, b"plain", second), listed(first, foreign)
    )
    log = key_log(tmp_path / "keys.jsonl", connection=connection, content_key=KEY.hex())
    assert listed_contents(path) == [
        (False, []), (False, [b"plain"]), (True, [first, b"plain", second]),
        (True, [first, foreign]),
    ]  # fmt: skip
    assert listed_contents(path, keys=[str(log)]) == [
        (False, []), (False, [b"plain"]), (False, [b"news", b"plain", b"more"]),
        (True, [b"news", foreign]),
    ]  # fmt: skip
    (coverage,) = (
        row
        for table, row in read_tables([path], tables=("coverage",))
        if table == "coverage" and row["direction"] == "s2c"
    )
    assert coverage["undecryptable_bytes"] > 0


def test_a_list_before_the_sign_on_stays_sealed(tmp_path: Path) -> None:
    """Also when a notification after it, which kernels decode first, was opened before."""
    call = Call(PORT).open().say("s2c", listed(sealed_content(0)))
    call.say("c2s", COMET_PROTOCOL.encode(comet.Auth(client_id="phone", token="t")))
    call.say("s2c", pushed(1)).close()
    path = write(tmp_path / "a.pcap", call.packets)
    log = key_log(tmp_path / "keys.jsonl", client_id="phone", content_key=KEY.hex())
    assert differences([str(path)], keys=[str(log)]) == []
    assert [sealed for sealed, _ in bodies(path, log)] == [True, False, False]


def test_bodies_without_a_mark_are_opened_by_both_readers(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    content = HipushContent(bytes(8), legacy_hipush=True)
    one = comet.Notification(msg_type=1, msg_id="n", content=content.seal(b"news"), ts=0)
    frames = [
        COMET_PROTOCOL.encode(each, dialect="hipush")
        for each in (one, comet.MessageList(messages=(one,)))
    ]
    write(path, Call(PORT).open().say("s2c", b"".join(frames)).close().packets)
    log = key_log(tmp_path / "keys.jsonl", des_key=bytes(8).hex())
    options = {"keys": [str(log)], "dialects": {"comet": "hipush"}}
    assert differences([str(path)], **options) == []
    rows = [row for table, row in read_tables([path], **options) if table == "messages"]  # type: ignore[arg-type]
    assert [row["sealed"] for row in rows] == [False, False]
    assert rows[0]["body"] == b"news"
    assert rows[1]["comet"]["message_list"]["messages"][0]["content"] == b"news"


def test_a_key_name_of_invalid_text_is_the_same_in_both_readers() -> None:
    """And it can be saved: a saved state has no other text than UTF-8."""
    name = b"a\xff".decode("utf-8", "surrogateescape")
    raw = COMET_PROTOCOL.encode(comet.Auth(client_id=name, token="throw-away"))
    frame, _ = COMET_PROTOCOL.decode(raw, direction="c2s")
    assert Describer(COMET_PROTOCOL).key_name(frame) == "a\ufffd"
