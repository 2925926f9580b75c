"""Spans tile what they cover, and say what the codec says, of good bytes and of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_cases import BUILT_IN_CASES, CASES, Case, damage, name_of

from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.layout import BrokenRow
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import DecodeError, NeedMore
from wirelake.wire.views._trace_layouts import Span, trace
from wirelake.wire.views.strategy import messages

pytestmark = pytest.mark.slow

VECTORS = Path(__file__).parents[2] / "vectors"
TNY_REQUEST = bytes.fromhex("746e792e001400000001010104e9076400d2edffa987300568656c6c6f")


def assert_tiled(span: Span) -> None:
    """Leaves lie end to end; so do the children of every span that has some, and bits."""
    position = span.start
    for leaf in span.leaves():
        assert leaf.start == position, leaf.path
        position = leaf.stop
    assert position == span.stop
    for each in span.walk():
        bits = [child for child in each.children if child.bits is not None]
        if bits and each.error is None:
            top = 8 * each.size
            for child in bits:
                assert child.bits is not None
                shift, width = child.bits
                assert shift + width == top, child.path
                top = shift
            assert top == 0


# -- against the codec -----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=name_of)
@given(data=st.data())
def test_spans_of_a_message(case: Case, data: st.DataObject) -> None:
    message = data.draw(messages(*case))
    raw = case.encode(message)
    span = case.trace(raw)
    assert span.error is None
    assert (span.start, span.stop) == (0, len(raw))
    assert_tiled(span)
    assert case.json(span.value) == case.json(message)
    paths = [each.path for each in span.walk() if not each.name.startswith("unknown_")]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("case", CASES, ids=name_of)
@given(data=st.data())
def test_damaged_bytes_get_the_codecs_answer(case: Case, data: st.DataObject) -> None:
    raw = data.draw(damage(case.encode(data.draw(messages(*case)))))
    span = case.trace(raw)
    assert case.traced(span) == case.answer(raw)
    assert_tiled(span)


def test_a_varint_without_a_name_is_refused_where_it_begins() -> None:
    (case,) = [each for each in CASES if name_of(each) == "sink-seed"]
    raw = b"SK\x00\x00\x0a\x00\x00\x00\x02GM\x03\x00\x00\x01\x00"
    assert (
        case.traced(case.trace(raw))
        == case.answer(raw)
        == ("error", "reserved_value", "lists.odd", 9)
    )


@pytest.mark.parametrize("case", CASES, ids=name_of)
@given(raw=st.binary(max_size=64))
def test_any_bytes_get_the_codecs_answer(case: Case, raw: bytes) -> None:
    span = case.trace(raw)
    assert case.traced(span) == case.answer(raw)
    assert_tiled(span)


def _vectors(case: Case) -> list[bytes]:
    name = "tny" if case.protocol is RELAY else case.protocol.name
    lines = (VECTORS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [bytes.fromhex(found) for line in lines if (found := json.loads(line).get("hex"))]


@pytest.mark.parametrize("case", BUILT_IN_CASES, ids=name_of)
def test_prefixes_of_vectors_get_the_codecs_answer(case: Case) -> None:
    for raw in _vectors(case):
        for cut in {*range(min(len(raw), 40)), len(raw) - 1, len(raw)}:
            span = case.trace(raw[:cut])
            assert case.traced(span) == case.answer(raw[:cut]), raw[:cut].hex()
            assert_tiled(span)


# -- examples --------------------------------------------------------------------------------


def test_places_names_and_documentation() -> None:
    raw = bytes.fromhex("001c08030300074d49204e4f54450200066f733d352e300005763d312e32")
    span = trace(COMET.model(), raw, direction="c2s")
    isp = span.find("frame.body.isp")
    assert isp is not None
    assert (isp.start, isp.stop, isp.value, isp.label) == (4, 5, 3, "TELECOM")
    assert isp.doc == "Whose network it is on."
    extra = span.find("frame.body.extra[1]")
    assert extra is not None
    assert (extra.start, extra.size, extra.value) == (23, 7, "v=1.2")
    body = span.find("frame.body")
    assert body is not None
    assert body.layout == "report_environ"
    assert span.find("frame.nothing") is None


def test_the_span_at_a_byte() -> None:
    raw = bytes.fromhex("000106")
    span = trace(COMET.model(), raw, direction="c2s")
    found = [span.at(offset) for offset in range(4)]
    assert [each.name if each else None for each in found] == ["length", "length", "type", None]


def test_a_message_in_the_middle_of_a_buffer() -> None:
    raw = b"xx" + bytes.fromhex("000106") + b"yy"
    span = trace(COMET.model(), raw, 2, direction="c2s")
    assert (span.start, span.stop, span.error) == (2, 5, None)
    short = trace(COMET.model(), raw, 2, 4, direction="c2s")
    assert isinstance(short.error, NeedMore)
    assert short.error.need == 1


def test_bits_have_positions_within_their_bytes() -> None:
    span = trace(TNY.model(), TNY_REQUEST)
    waste = span.find("packet.waste")
    assert waste is not None
    assert (waste.start, waste.stop, waste.bits, waste.value) == (4, 5, (4, 1), False)


def test_a_tag_of_several_bit_fields_has_one_name() -> None:
    raw = bytes.fromhex(
        "72706b1f0000000800000013d2f63f7580010000090b00000000000000111600000000000000"
    )
    span = trace(RELAY.model(), raw)
    sub_id = span.find("relay_packet.sub_id")
    assert sub_id is not None
    assert (sub_id.value, sub_id.label) == (3, "TUNNEL_DISCONNECT")


def test_a_stage_counts_in_its_plaintext() -> None:
    span = trace(TNY.model(), TNY_REQUEST, stages={"content": TNY_REQUEST[11:]})
    content = span.find("packet.body.content")
    assert content is not None
    assert content.stage is not None
    assert content.plaintext == TNY_REQUEST[11:]
    body = content.stage.find("message.body")
    assert body is not None
    assert (body.start, body.value) == (12, b"hello")
    assert_tiled(content.stage)
    assert_tiled(span)


def test_a_stage_that_fails_leaves_the_packet_whole() -> None:
    span = trace(TNY.model(), TNY_REQUEST, stages={"content": b"\x01"})
    content = span.find("packet.body.content")
    assert content is not None
    assert content.stage is not None
    assert isinstance(content.stage.error, DecodeError)
    assert span.error is None


def test_the_error_is_at_its_place_and_above() -> None:
    raw = bytes.fromhex("000603010009406e")
    span = trace(COMET.model(), raw, direction="c2s")
    assert isinstance(span.error, DecodeError)
    marked = [each.path for each in span.walk() if each.error is not None]
    assert marked == [
        "frame",
        "frame.body",
        "frame.body.topics",
        "frame.body.topics[0]",
        "frame.body.topics[0].length",
    ]
    assert all(each.error in (None, span.error) for each in span.walk())


def test_an_error_in_the_head_marks_the_part_to_blame() -> None:
    raw = bytes.fromhex("7f6600060000000000000002000000140000000100000000000000000000000000000000")
    span = trace(MAGLINE.model(), raw)
    magic = span.find("frame.magic")
    assert magic is not None
    assert magic.error is span.error
    assert isinstance(span.error, DecodeError)
    assert span.error.code == "magic_mismatch"


def test_a_broken_row_stops_nothing() -> None:
    raw = bytes.fromhex("1c000000" + "15000005026b05020a" + "1e00000108" + "00000000")
    span = trace(ESNP.model(), raw)
    assert span.error is None
    rows = [span.find(f"message.rows[{index}]") for index in range(3)]
    assert [isinstance(row.value, BrokenRow) for row in rows if row] == [True, True, False]
    assert [bool(row.error) for row in rows if row] == [True, True, False]
    assert_tiled(span)


# -- secrets ---------------------------------------------------------------------------------


def secret_paths(span: Span) -> list[str]:
    return [each.path for each in span.walk() if each.secret]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        # No length of client_id fits: the byte may be the token's.
        ("00020074", ["frame.body.client_id.length"]),
        ("0001 00", ["frame.body.client_id.length"]),
        # The command is unknown, so nobody knows what its bytes are.
        ("0003ff7474", ["frame.body"]),
        # Bytes behind the token may be more of it.
        ("000600000000007474", ["frame.body.token", "frame.trailing"]),
        # What was read whole is what it is.
        ("0006030100094074", []),
        ("00", []),
        ("00500100507474", []),
    ],
)
def test_what_may_be_secret_is_marked(raw: str, wanted: list[str]) -> None:
    span = trace(COMET.model(), bytes.fromhex(raw), direction="c2s")
    assert span.error is not None
    assert secret_paths(span) == wanted
