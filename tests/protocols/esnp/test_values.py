"""Python values as Var, and back."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.esnp.codec_seed import decode_message, encode_message
from wirelake.protocols.esnp.layout import Data, Message, Payload, Var, VarType
from wirelake.protocols.esnp.values import data_rows, value_of, values_of, var_of
from wirelake.wire.errors import EncodeError

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values)
def test_what_is_written_is_read(value: Any) -> None:
    rows = data_rows({"v": value})
    message, _ = decode_message(data := encode_message(Message(rows=rows)), 0, len(data))
    assert values_of(message.rows) == {"v": value}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, VarType.INT32),
        (-(1 << 31), VarType.INT32),
        (1 << 31, VarType.INT64),
        (1 << 63, VarType.UINT64),
        (True, VarType.BOOL),
        (1.0, VarType.FLOAT64),
        ((1, 2), VarType.LIST),
    ],
)
def test_types_are_those_of_the_original(value: object, kind: VarType) -> None:
    assert var_of(value).type == kind


def test_a_class_of_its_own_is_written_as_its_base() -> None:
    class Colour(IntEnum):
        RED = 3

    assert var_of(Colour.RED) == Var(type=VarType.INT32, value=3)


@pytest.mark.parametrize("value", [object(), {1: 2}, 1 << 64, -(1 << 63) - 1, [object()]])
def test_what_has_no_var_is_refused(value: object) -> None:
    with pytest.raises(EncodeError):
        var_of(value)


def test_what_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError, match="too_deep"):
        var_of(endless)


def test_repeats() -> None:
    one, two = var_of(1), var_of(2)
    rows = (Data(name="a", value=one), Payload(data=b"x"), Data(name="a", value=two))
    assert values_of(rows) == {"a": 1}
    assert value_of(Var(type=VarType.MAP, value=(("k", one), ("k", two)))) == {"k": 2}
