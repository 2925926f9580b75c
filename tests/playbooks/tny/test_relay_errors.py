"""Bad input on relay links (§7 of the rules), and when a gateway dials again (§5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.playbook import Emits, EmitsKind, Eof, rule
from tests.playbooks.tny.peer import RELAY_CODECS
from tests.playbooks.tny.relay_peer import (
    OPENING,
    both_dialects,
    open_gateway,
    open_server,
    server_link,
)

from wirelake.conformance.tny import class_of
from wirelake.protocols.sansio import Closed, Failed, Side
from wirelake.protocols.tny.layout import RelayPacket
from wirelake.protocols.tny.relay_gateway import ReconnectSchedule
from wirelake.protocols.tny.transform import Dialect
from wirelake.wire.errors import DecodeError


@rule("tny.5.reconnect")
def test_a_gateway_dials_again_after_longer_and_longer_then_from_the_start() -> None:
    schedule = ReconnectSchedule()
    delays = [1, 2, 2, 3, 3, 3, 5, 5, 5, 5, 10, 10, 10, 10, 10, 15]
    assert [schedule.next_delay_s() for _ in range(40)] == (delays * 3)[:40]


@rule("tny.5.reconnect")
def test_a_connection_resets_the_schedule() -> None:
    schedule = ReconnectSchedule()
    for _ in range(7):
        schedule.next_delay_s()
    schedule.succeeded()
    assert [schedule.next_delay_s() for _ in range(3)] == [1, 2, 2]


# -- bad input -----------------------------------------------------------------------------


_HEAD = b"rpk\x0d\0\0\0\x01\0\0\0"
BROKEN = {
    "relay_bad_magic": b"rpl\x0d\0\0\0",
    "relay_length": b"rpk\x0c\0\0\0",
    "relay_unknown_type": _HEAD + b"\x04" + bytes(8),
    "relay_bad_arguments": b"rpk\x0f\0\0\0\x01\0\0\0\x11" + bytes(8) + b"\x52\x04",
}


@rule(
    "tny.error.relay_bad_magic",
    "tny.error.relay_length",
    "tny.error.relay_unknown_type",
    "tny.error.relay_bad_arguments",
)
@both_dialects
@pytest.mark.parametrize("name", sorted(BROKEN))
@pytest.mark.parametrize("book", [open_gateway, open_server])
def test_broken_packets_close_the_link(book: Any, name: str, dialect: Dialect) -> None:
    session = (
        book(dialect)
        >> BROKEN[name]
        << EmitsKind.of(Failed, fatal=True, side=Side.REMOTE)
        << EmitsKind.of(Closed, clean=False)
    ).done()
    assert session.closed
    link = server_link(dialect=dialect)
    for byte in (
        RELAY_CODECS[dialect].encode_relay_packet(RelayPacket(arguments=OPENING)) + BROKEN[name]
    ):
        link.receive(bytes([byte]), 0.0)
    (error,) = [event for event in link.events() if isinstance(event, Failed)]
    assert class_of(DecodeError(error.code, error.field), relay=True) == name


@rule("tny.error.relay_length")
def test_a_packet_over_the_limit_is_refused_from_its_head() -> None:
    (
        open_server(max_packet=1000)
        >> b"rpk" + (1001).to_bytes(4, "little")
        << EmitsKind.of(Failed, code="too_large")
        << EmitsKind.of(Closed, reason="too_large")
    ).done()


@rule("tny.error.incomplete")
@pytest.mark.parametrize("book", [open_gateway, open_server])
def test_an_incomplete_packet_waits_and_is_an_error_at_the_end(book: Any) -> None:
    (
        book()
        >> b"rpk\x0d\0\0\0\x01"
        >> Eof()
        << EmitsKind.of(Failed, code="short")
        << Emits(Closed("eof", Side.REMOTE, clean=False))
    ).done()
