"""Layouts in words: every part, with its place."""

from __future__ import annotations

import pytest
from view_cases import CASES, Case, name_of

from wirelake.protocols.comet.layout import Auth
from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.tny.layout import LinkOpen, Message
from wirelake.wire import model as m
from wirelake.wire.declare import build
from wirelake.wire.views.describe import alternatives, fields


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_part_has_a_description(case: Case) -> None:
    for layout in case.protocol.layouts(case.dialect):
        found = {field.name: field for field in fields(layout)}
        for part in layout.parts:
            names = [part.name] if hasattr(part, "name") else []
            names += [bit.name for bit in part.bits] if isinstance(part, m.BitGroup) else []
            names += [each.name for each in part.fields] if isinstance(part, m.Options) else []
            for name in names:
                assert found[name].type
                assert "`" not in found[name].type


def test_offsets_are_known_up_to_something_variable() -> None:
    client, token = fields(build(Auth))
    assert (client.offset, client.size, client.secret) == ("0", "2 + n", False)
    assert (token.offset, token.secret) == ("…", True)
    head = {field.name: field.offset for field in fields(MAGLINE.model())}
    assert (head["magic"], head["seq"], head["length"], head["body"]) == ("0", "8", "12", "…")


def test_bits_options_and_protobuf() -> None:
    message = {field.name: field for field in fields(build(Message))}
    assert message["line"].size == "bits 5-3"
    assert "0 REQUEST, 1 RESPONSE, 2 PUSH" in message["mode"].notes
    assert message["body"].notes == ("there when has_body is set",)
    assert [field.offset for field in fields(build(LinkOpen))] == ["#1", "#2", "#3", "#4"]


def test_alternatives_of_bodies_and_rows() -> None:
    assert (0, "s2c", "ok") in [(t, w, each.name) for t, w, each in alternatives(COMET.model())]
    assert (0x1E, "", "flag") in [(t, w, each.name) for t, w, each in alternatives(ESNP.model())]
