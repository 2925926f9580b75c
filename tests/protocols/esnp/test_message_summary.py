"""MessageSummary agree with `message.py`, which looks at the rows once for each question."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp import message
from wirelake.protocols.esnp import message as summary
from wirelake.protocols.esnp.layout import (
    Address,
    BrokenRow,
    Data,
    Error,
    Flag,
    FlagType,
    Message,
    MessageId,
    OpaqueRow,
    Payload,
    SeqNo,
    SourceMessageId,
    Var,
    Version,
)
from wirelake.protocols.esnp.message import MessageSummary, modern, summarize

small = st.integers(-3, 9)
rows: st.SearchStrategy[Any] = st.one_of(
    st.builds(Flag, value=small),
    st.builds(MessageId, value=st.integers(0, 3)),
    st.builds(SourceMessageId, value=st.integers(0, 3)),
    st.builds(SeqNo, current=small, maximum=small),
    st.builds(Error, value=st.just("e")),
    st.builds(
        Version, major=st.integers(0, 2), minor=st.just(0), branch=st.just(0), variant=st.just(0)
    ),
    st.just(Data(name="a", value=Var(type=0))),
    st.just(Payload(data=b"")),
    st.just(Address(kind=30, value="s")),
    st.builds(OpaqueRow, type=st.sampled_from([0x01, 0x13, 0x19, 0x1A, 0x20, 0x80])),
    st.just(BrokenRow(type=0x11, data=b"", code="bad_length", field="message_id", offset=0)),
    st.just(BrokenRow(type=0x15, data=b"", code="short", field="data.name", offset=0)),
)
messages = st.lists(rows, max_size=8).map(lambda found: Message(rows=tuple(found)))


@pytest.mark.parametrize("revision", ["frames", "lines"])
@given(value=messages)
def test_the_summary_matches_the_rows(revision: Any, value: Message) -> None:
    found = summarize(value, revision)
    assert found.kind == message.kind(value)
    assert found.flags == set(message.flags(value))
    assert found.id == message.message_id(value)
    assert found.source_id == message.source_message_id(value)
    assert found.seq == message.seq(value)
    assert found.failed == (message.error_text(value) is not None)
    assert found.asks == (found.kind in {"REQUEST", "INFO"})
    assert found.irregular == bool(message.check(value, revision, strict=False))


def test_nothing_is_known_of_an_empty_message() -> None:
    assert summarize(Message()) == MessageSummary()


def test_the_first_version_counts() -> None:
    two = tuple(Version(major=n, minor=0, branch=0, variant=0) for n in (3, 4))
    assert summarize(Message(rows=two)).major == 3


def test_kinds_do_not_overlap() -> None:
    assert not summary.ASKS & summary.ANSWERS


@given(value=messages)
def test_modern_changes_nothing_but_cancelled_rows(value: Message) -> None:
    after = modern(value)
    assert len(after.rows) == len(value.rows)
    for old, new in zip(value.rows, after.rows, strict=True):
        if old != new:
            assert isinstance(old, OpaqueRow)
            assert old.type in summary.CANCELLED
            assert isinstance(new, Flag)
    assert summarize(value).cancelled == any(
        isinstance(row, OpaqueRow) and row.type in summary.CANCELLED for row in value.rows
    )


def test_modern_names_every_kind() -> None:
    flags = [FlagType.REQUEST, FlagType.RESP, FlagType.INFO, FlagType.EVENT]
    old = tuple(OpaqueRow(type=0x13, data=bytes([n])) for n in (1, 2, 3, 4))
    assert modern(Message(rows=old)).rows == tuple(Flag(value=flag) for flag in flags)
