"""What is found in a body that is known is what the decoder finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp.codec_seed import decode_message, encode_message
from wirelake.protocols.esnp.fast_path import learn_body
from wirelake.protocols.esnp.layout import Message, Payload, Row
from wirelake.protocols.esnp.values import data_rows, values_of
from wirelake.wire.errors import DecodeError, NeedMore


def _rows(content: object, topic: str = "@news") -> tuple[Row, ...]:
    return data_rows({"topic": topic, "content": content, "ttl_s": 0})


_contents = st.text(max_size=200) | st.binary(max_size=200) | st.integers(0, 9) | st.none()


@given(st.lists(_contents, max_size=4), _contents, st.sampled_from(["@news", "@sport"]))
def test_the_value_is_that_of_the_decoder(
    learned_from: list[object], content: object, topic: str
) -> None:
    body = next(filter(None, (learn_body(_rows(each), "content") for each in learned_from)), None)
    data = b"before" + encode_message(Message(rows=_rows(content, topic))) + b"after"
    found = None if body is None else body.find(data, 6)
    if found is not None:
        value, stop = found
        assert (topic, stop) == ("@news", len(data) - 5)
        assert value == (content.encode() if isinstance(content, str) else content)


@given(st.text("abcé", max_size=40), st.data())
def test_altered_bytes_are_found_as_they_are_or_not_at_all(
    content: str, data: st.DataObject
) -> None:
    body = learn_body(_rows(content), "content")
    assert body is not None
    raw = bytearray(encode_message(Message(rows=_rows(content))))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    found = body.find(cut, 0)
    if found is None:
        return
    try:
        message, stop = decode_message(cut, 0, len(cut))
    except (DecodeError, NeedMore) as error:
        raise AssertionError("found in bytes that do not decode") from error
    assert stop == found[1]
    assert values_of(message.rows)["content"] == found[0].decode()


def test_a_length_is_known_once_it_was_there() -> None:
    body = learn_body(_rows("x" * 1_001), "content")
    assert body is not None
    longer = encode_message(Message(rows=_rows("x" * 1_002)))
    assert body.find(longer, 0) is None
    body.expect(1_002)
    assert body.find(longer, 0) == (b"x" * 1_002, len(longer))


def test_what_cannot_be_learned() -> None:
    assert learn_body(data_rows({"topic": "@news"}), "content") is None
    assert learn_body(_rows(7), "content") is None
    assert learn_body((Payload(data=b"x"),), "content") is None
