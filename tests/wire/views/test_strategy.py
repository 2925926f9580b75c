"""Strategies give what the codec takes, and reach every corner of a layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from view_cases import CASES, Case, name_of

from wirelake.protocols.comet.layout import Auth, MessageAck, Notification
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.layout import BrokenRow, Data, OpaqueRow, Var, VarType
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.layout import Frame, Syn
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.tny.layout import Message, TunnelConnect
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire.declare import build
from wirelake.wire.types import F32, F64, Layout
from wirelake.wire.views.strategy import messages, values

pytestmark = pytest.mark.slow

PATIENT = settings(
    max_examples=20_000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""Looks for long, and does not shrink what it finds."""


def reaches(strategy: st.SearchStrategy[Any], wanted: Callable[[Any], bool]) -> bool:
    """Whether some value is as wanted; raises NoSuchExample otherwise."""
    find(strategy, wanted, settings=PATIENT)
    return True


@pytest.mark.parametrize("case", CASES, ids=name_of)
@given(data=st.data())
def test_every_message_survives_the_codec(case: Case, data: st.DataObject) -> None:
    message = data.draw(messages(*case))
    raw = case.encode(message)
    assert case.answer(raw) == ("value", case.json(message), len(raw))


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_alternative_is_reached(case: Case) -> None:
    layout = case.protocol.model(case.dialect)
    body = layout.body
    wanted = {found.layout.cls for found in body.of(case.direction)} if body else {layout.cls}
    seen: set[type] = set()

    def seen_all(message: Any) -> bool:
        plain = body is None or layout.transparent
        seen.add(type(message if plain else getattr(message, body.name if body else "")))
        return seen == wanted

    assert reaches(messages(*case), seen_all)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda m: m.mode == 2,
        lambda m: m.id == -(1 << 63),
        lambda m: m.id == (1 << 63) - 1,
        lambda m: m.protocol == (1 << 31) - 1,
        lambda m: m.body is None,
        lambda m: m.body == b"",
        lambda m: m.body is not None and len(m.body) >= 128,
        lambda m: m.forward_header is not None and m.body is not None,
        lambda m: m.line == 7,
    ],
)
def test_edges_of_a_tny_message(wanted: Callable[[Message], bool]) -> None:
    assert reaches(values(build(Message)), wanted)


def test_closed_numbers_stay_inside() -> None:
    @given(values(build(Message)))
    def check(message: Message) -> None:
        assert message.mode in (0, 1, 2)

    check()


def test_texts_that_are_not_utf8() -> None:
    def invalid(message: Auth) -> bool:
        return any(0xDC80 <= ord(char) <= 0xDCFF for char in message.client_id)

    assert reaches(values(build(Auth)), invalid)


def test_full_lists() -> None:
    assert reaches(values(build(MessageAck)), lambda m: len(m.msg_ids) == 255)


def test_a_dialects_own_fields() -> None:
    assert reaches(values(build(Notification, "hipush")), lambda m: m.job_id != "")
    assert not any(
        part.name == "job_id" for part in build(Notification).parts if hasattr(part, "name")
    )


def test_options_go_with_their_commands() -> None:
    strategy = messages(MAGLINE)

    def resumed(frame: Frame) -> bool:
        return (
            isinstance(frame.body, Syn) and frame.resume is not None and bool(frame.unknown_options)
        )

    assert reaches(strategy, resumed)

    @given(strategy)
    def check(frame: Frame) -> None:
        assert isinstance(frame.body, Syn) or (frame.resume is None and frame.key_id is None)

    check()


def test_unknown_protobuf_fields_and_sizes() -> None:
    relay = messages(RELAY)
    assert reaches(relay, lambda p: getattr(p.arguments, "unknown", b"") != b"")
    assert reaches(
        relay, lambda p: isinstance(p.arguments, TunnelConnect) and len(p.arguments.ip) == 16
    )


def _vars(row: Data) -> list[tuple[Var, int]]:
    """All values in a row, with their depth."""
    found: list[tuple[Var, int]] = []

    def add(var: Any, depth: int) -> None:
        found.append((var, depth))
        if var.type == VarType.LIST:
            for item in var.value:
                add(item, depth + 1)
        elif var.type == VarType.MAP:
            for _, item in var.value:
                add(item, depth + 1)

    add(row.value, 0)
    return found


def test_every_type_of_var() -> None:
    seen: set[int] = set()

    def seen_all(row: Data) -> bool:
        seen.update(var.type for var, _ in _vars(row))
        return seen == set(VarType)

    assert reaches(values(build(Data)), seen_all)


class Floats(Layout):
    """A float of each size."""

    single: F32
    double: F64


@pytest.mark.parametrize("name", ["single", "double"])
@pytest.mark.parametrize(
    "wanted",
    [
        math.isnan,
        lambda x: x == math.inf,
        lambda x: x == -math.inf,
        lambda x: x == 0 and math.copysign(1, x) < 0,
    ],
)
def test_odd_floats(wanted: Callable[[float], bool], name: str) -> None:
    assert reaches(values(build(Floats)), lambda found: wanted(getattr(found, name)))


def test_nested_vars() -> None:
    assert reaches(values(build(Data)), lambda row: any(depth >= 2 for _, depth in _vars(row)))


@pytest.mark.parametrize("types", [range(0x01, 0x10), range(0x20, 0x80), range(0x80, 0x100)])
def test_rows_without_a_layout(types: Container[int]) -> None:
    """Reserved, unassigned, the application's own."""

    def wanted(message: Any) -> bool:
        return any(isinstance(row, OpaqueRow) and row.type in types for row in message.rows)

    assert reaches(messages(ESNP), wanted)


def test_no_row_is_broken() -> None:
    @given(messages(ESNP))
    def check(message: Any) -> None:
        decoded = ESNP.decode(ESNP.encode(message)).message
        assert not any(isinstance(row, BrokenRow) for row in decoded.rows)

    check()


def test_the_direction_chooses() -> None:
    @given(messages(COMET, direction="c2s"))
    def check(message: Any) -> None:
        assert not isinstance(message, Notification)

    check()


def test_packets_of_every_kind_have_every_flag() -> None:
    assert reaches(messages(TNY), lambda p: p.waste and p.encrypt and p.verify and p.reserved)
