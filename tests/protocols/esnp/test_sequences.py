"""Sequences: parts in any order come out in one, within limits, and nothing is left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp.layout import Message
from wirelake.protocols.esnp.sequences import Numbers, Sequences, in_range
from wirelake.wire.errors import DecodeError

MESSAGE = Message()


def raws(ready: list[tuple[Message, bytes, bool]]) -> list[bytes]:
    """The bytes of parts."""
    return [raw for _, raw, _ in ready]


@pytest.mark.parametrize(
    ("numbers", "fine"),
    [
        ((1, 0), True),
        ((1, 1), True),
        ((5, 9), True),
        ((0, 0), False),
        ((-1, 0), False),
        ((2, 1), False),
        ((1, -1), False),
    ],
)
def test_numbers(numbers: Numbers, fine: bool) -> None:
    assert in_range(numbers) is fine


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@given(order=st.permutations(range(1, 7)))
def test_any_order_comes_out_in_one(whole: bool, known: bool, order: list[int]) -> None:
    sequences = Sequences(10, 1_000, whole=whole)
    got: list[tuple[Message, bytes, bool]] = []
    for count, current in enumerate(order, 1):
        maximum = 6 if known or current == 6 else 0
        ready = sequences.add(9, (current, maximum), MESSAGE, bytes([current]) * current)
        assert not whole or not ready or count == 6
        got += ready
        held = sum(len(raw) for _, raw, _ in got)
        assert sequences.held_bytes == (0 if count == 6 else sum(order[:count]) - held)
    assert raws(got) == [bytes([n]) * n for n in range(1, 7)]
    assert [last for _, _, last in got] == [False] * 5 + [True]
    assert (len(sequences), sequences.held_bytes) == (0, 0)


def test_sequences_do_not_mix() -> None:
    sequences = Sequences(10, 1_000, whole=True)
    assert sequences.add(1, (1, 2), MESSAGE, b"a1") == []
    assert sequences.add(2, (1, 2), MESSAGE, b"b1") == []
    assert (1 in sequences, 2 in sequences, 3 in sequences, len(sequences)) == (
        True,
        True,
        False,
        2,
    )
    assert raws(sequences.add(2, (2, 2), MESSAGE, b"b2")) == [b"b1", b"b2"]
    assert raws(sequences.add(1, (2, 2), MESSAGE, b"a2")) == [b"a1", b"a2"]


@pytest.mark.parametrize("numbers", [(0, 0), (1, 0), (2, 0), (4, 0), (9, 8)])
def test_a_part_that_cannot_be_one_changes_nothing(numbers: Numbers) -> None:
    sequences = Sequences(10, 1_000)
    for current in (1, 2, 4):
        sequences.add(7, (current, 0), MESSAGE, b"x")
    before = sequences.held_bytes
    with pytest.raises(DecodeError) as caught:
        sequences.add(7, numbers, MESSAGE, b"x")
    assert caught.value.code == "seq_range"
    assert sequences.held_bytes == before
    assert raws(sequences.add(7, (3, 0), MESSAGE, b"y")) == [b"y", b"x"]


def test_a_first_part_that_cannot_be_one_leaves_nothing() -> None:
    sequences = Sequences(10, 1_000)
    with pytest.raises(DecodeError):
        sequences.add(7, (0, 0), MESSAGE, b"x")
    assert (len(sequences), 7 in sequences) == (0, False)


@pytest.mark.parametrize("whole", [False, True])
def test_the_limit_of_parts(whole: bool) -> None:
    sequences = Sequences(2, 1_000, whole=whole)
    sequences.add(7, (5, 0), MESSAGE, b"x")
    sequences.add(7, (6, 0), MESSAGE, b"x")
    with pytest.raises(DecodeError, match="too_many"):
        sequences.add(7, (7, 0), MESSAGE, b"x")


def test_parts_that_went_on_do_not_count() -> None:
    sequences = Sequences(2, 10)
    for current in range(1, 100):
        assert raws(sequences.add(7, (current, 0), MESSAGE, b"0123456789")) == [b"0123456789"]
    assert sequences.held_bytes == 0


def test_the_limit_of_bytes_is_for_all_together() -> None:
    sequences = Sequences(10, 10, whole=True)
    sequences.add(1, (1, 0), MESSAGE, b"12345")
    sequences.add(2, (1, 0), MESSAGE, b"12345")
    with pytest.raises(DecodeError, match="too_many"):
        sequences.add(3, (1, 0), MESSAGE, b"1")
    assert 3 not in sequences
    sequences.drop(1)
    sequences.add(3, (1, 0), MESSAGE, b"1")


def test_a_refused_sequence_is_swallowed_to_its_end() -> None:
    sequences = Sequences(10, 1_000, whole=True)
    sequences.add(7, (1, 0), MESSAGE, b"12345")
    sequences.refuse(7)
    assert sequences.refused(7)
    assert not sequences.refused(8)
    assert sequences.held_bytes == 0
    assert sequences.add(7, (1, 0), MESSAGE, b"1") == []
    assert sequences.add(7, (9, 9), MESSAGE, b"1") == []
    assert 7 not in sequences
    assert raws(sequences.add(7, (1, 1), MESSAGE, b"new")) == [b"new"]


def test_dropping_and_clearing() -> None:
    sequences = Sequences(10, 1_000)
    sequences.drop(1)
    sequences.add(1, (2, 0), MESSAGE, b"12")
    sequences.add(2, (2, 0), MESSAGE, b"345")
    sequences.drop(1)
    assert (len(sequences), sequences.held_bytes) == (1, 3)
    sequences.clear()
    assert (len(sequences), sequences.held_bytes) == (0, 0)
