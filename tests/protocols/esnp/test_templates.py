"""Rows from templates are the rows that the codec writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.hub.listeners.esnp import EsnpForm, published_body
from wirelake.hub.pubsub.notifications import Notification, Published
from wirelake.protocols.esnp.codec_seed import decode_message, encode_message
from wirelake.protocols.esnp.fast_path import END, DataTemplate, bytes_of_rows
from wirelake.protocols.esnp.layout import Data, Message, Var, VarType
from wirelake.protocols.esnp.values import data_rows, values_of


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 8_191, 8_192, 20_000])
def test_a_row_of_any_length(size: int) -> None:
    row = Data(name="content", value=Var(type=VarType.LEN_STRING, value="é" + "x" * size))
    template = DataTemplate("content", VarType.LEN_STRING)
    assert template.row("é".encode() + b"x" * size) == bytes_of_rows(row)


@given(st.text(min_size=1, max_size=20), st.binary(max_size=300))
def test_a_row_of_any_name(name: str, value: bytes) -> None:
    row = Data(name=name, value=Var(type=VarType.LEN_BYTES, value=value))
    assert DataTemplate(name, VarType.LEN_BYTES).row(value) + END == encode_message(
        Message(rows=(row,))
    )


@given(
    st.binary(max_size=200) | st.text(max_size=80).map(str.encode),
    st.none() | st.just("@news") | st.just("@天气"),
    st.integers(0, 255),
    st.integers(0, 1 << 45),
)
def test_an_event_has_the_fields_of_the_notification(
    content: bytes, topic: str | None, kind: int, ts_ms: int
) -> None:
    notification = Notification(1, "m000000000000001", topic, content, kind, ts_ms, 0)
    frame = EsnpForm().encode(notification)
    message, stop = decode_message(frame, 0, len(frame), 1 << 20)
    assert stop == len(frame)
    found = values_of(message.rows)
    text = found["content"]
    assert (text.encode() if isinstance(text, str) else text) == content
    assert found == {
        "id": notification.id,
        **({} if topic is None else {"topic": topic}),
        "content": text,
        "ts": ts_ms,
        **({"type": kind} if kind else {}),
    }


@given(st.integers(0, 1 << 40))
def test_the_answer_to_a_publish(audience: int) -> None:
    published = Published("m000000000000001", audience)
    rows = data_rows({"id": published.id, "audience": audience})
    assert published_body(published) == encode_message(Message(rows=rows))
