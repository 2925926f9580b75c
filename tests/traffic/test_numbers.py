"""Ids of one width, no two alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.traffic.packets.numbers import (
    BLOCK,
    FORMS,
    WIDTHS,
    Numbers,
    block,
    decimal,
    encode,
    shown,
    varint6,
)

NUMBERS = st.integers(0, (1 << 41) - 1)
COUNT = st.integers(0, (1 << 28) - 1)


@pytest.mark.parametrize("form", FORMS)
@given(one=NUMBERS, two=NUMBERS)
def test_numbers_differ_in_every_form(form: str, one: int, two: int) -> None:
    first, second = encode(form, one), encode(form, two)
    assert len(first) == len(second) == WIDTHS[form]
    assert (first == second) == (one == two)


@given(one=COUNT, two=COUNT)
def test_instances_have_blocks_of_their_own(one: int, two: int) -> None:
    first, second = block(np.array([one, two], np.uint64)).tolist()
    assert first % BLOCK == 0
    assert first < 1 << 41
    assert (first == second) == (one == two)


@given(st.integers(1 << 35, (1 << 42) - 1))
def test_varints_are_those_of_the_protocol(value: int) -> None:
    data = varint6(np.array([value], np.uint64)).tobytes()
    assert sum((byte & 0x7F) << 7 * n for n, byte in enumerate(data)) == value
    assert [byte >> 7 for byte in data] == [1, 1, 1, 1, 1, 0]


@given(st.integers(0, (1 << 63) - 1))
def test_decimal_digits(value: int) -> None:
    assert decimal(np.array([value], np.uint64)).tobytes() == b"%019d" % value


def test_ids_of_comet_look_like_its_own() -> None:
    assert encode("client", 7).decode()[0] == "c"
    assert int(encode("private", 7)[1:], 16) >= 0
    token = encode("token", 7).decode()
    assert token[0] == "t"
    assert [len(part) for part in token[1:].split("-")] == [8, 4, 4, 4, 12]


def test_tables_show_integers_and_texts() -> None:
    numbers = np.array([5, 6], np.uint64)
    assert np.diff(shown("varint", numbers)).tolist() == [1]
    assert shown("client", numbers).tolist() == [encode("client", 5), encode("client", 6)]


def test_a_scene_knows_its_numbers_again() -> None:
    numbers = Numbers(3)
    first = numbers.span("u64be", 4)
    assert [numbers.place("u64be", first + n) for n in range(4)] == [0, 1, 2, 3]
    text = numbers.text("client")
    assert numbers.used[text.encode()] == ("client", 4)
    assert numbers.used[(first + 2).to_bytes(8, "big")] == ("u64be", 2)


def test_a_block_has_an_end() -> None:
    numbers = Numbers(0)
    numbers.take(BLOCK)
    with pytest.raises(ValueError, match="more than 8192 numbers"):
        numbers.take()
