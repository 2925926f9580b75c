"""Reading and writing of tny packets below the sessions."""

from __future__ import annotations

import pytest
from tests.playbooks.tny.peer import KEYS, Peer, filler, push

from wirelake.protocols.sansio import SessionError
from wirelake.protocols.tny.layout import Packet, Ping
from wirelake.protocols.tny.limits import ClientOptions
from wirelake.protocols.tny.packets import (
    PING,
    PONG,
    SKIPPED,
    TICK_TAIL,
    DialectState,
    PacketReader,
    PacketWriter,
)
from wirelake.protocols.tny.transform import Dialect, TransformConfig
from wirelake.wire.errors import DecodeError, NeedMore

MOVE = 2002


def test_both_forms_of_a_tick_share_five_bytes() -> None:
    for tick in (PING, PONG):
        assert tick["seed"] == tick["upstream"] + TICK_TAIL
        assert len(tick["upstream"]) == 5


def test_auto_asks_for_no_more_bytes_than_the_smallest_packet_has() -> None:
    reader = PacketReader(DialectState("auto"), ClientOptions(dialect="auto"))
    for size in range(1, 5):
        with pytest.raises(NeedMore) as more:
            reader.frame(b"tny."[:size], 0, size)
        assert more.value.need == 5 - size
    packet, stop = reader.frame(PING["upstream"], 0, 5)
    assert (packet, stop) == (Packet(body=Ping()), 5)
    with pytest.raises(NeedMore) as more:
        reader.frame(b"\x02\0", 0, 2)
    assert more.value.need == 2
    assert reader.frame(b"\x02\0\0\0!", 0, 5) == (SKIPPED, 4)
    assert reader.skipping == 2
    assert reader.frame(b"!!", 0, 1) == (SKIPPED, 1)
    assert reader.frame(b"!!", 1, 2) == (SKIPPED, 2)
    assert reader.skipping == 0


def test_auto_keeps_the_received_dialect() -> None:
    dialect_state = DialectState("auto")
    assert (dialect_state.seen, dialect_state.current) == (None, "seed")
    dialect_state.detected("seed")
    assert dialect_state.changed
    dialect_state.changed = False
    dialect_state.detected("seed")
    assert not dialect_state.changed
    dialect_state.detected("upstream")
    assert (dialect_state.changed, dialect_state.current) == (True, "upstream")


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
def test_an_error_in_a_message_names_its_byte_unless_waste_hides_it(dialect: Dialect) -> None:
    for waste in (False, True):
        config = TransformConfig(security_keys=KEYS, encrypt=True, waste=waste)
        peer = Peer(dialect, writing=config)
        sealed = peer.writer.seal(1, b"\x01\x03", random=filler)  # mode 3
        data = peer.packet(
            sealed.number, sealed.content, 1, encrypt=sealed.encrypt, waste=sealed.waste
        )
        options = ClientOptions(dialect=dialect, reading=config)
        reader = PacketReader(DialectState(dialect), options)
        packet, stop = reader.frame(data, 0, len(data))
        with pytest.raises(DecodeError) as error:
            reader.open(packet, 0, stop)  # type: ignore[arg-type]
        assert error.value.offset == (11 if waste else 12)


@pytest.mark.parametrize("dialect", ["seed", "upstream"])
@pytest.mark.parametrize("verify", [False, True])
def test_a_payload_fits_its_limit_to_the_byte(dialect: Dialect, verify: bool) -> None:
    config = TransformConfig(verify=verify)
    free = PacketWriter(DialectState(dialect), ClientOptions(dialect=dialect, writing=config), None)
    size = len(free.message(push(1, MOVE, bytes(200)), 300)) - 9
    for limit, fits in ((size, True), (size - 1, False)):
        options = ClientOptions(dialect=dialect, writing=config, max_payload=limit)
        writer = PacketWriter(DialectState(dialect), options, None)
        if fits:
            assert len(writer.message(push(1, MOVE, bytes(200)), 300)) == limit + 9
            continue
        with pytest.raises(SessionError, match="too_large"):
            writer.message(push(1, MOVE, bytes(200)), 300)
        assert writer.number == 0


def test_waste_never_makes_a_payload_too_large() -> None:
    config = TransformConfig(security_keys=KEYS, waste=True)
    options = ClientOptions(writing=config, max_payload=120)
    writer = PacketWriter(DialectState("seed"), options, filler)
    for number in range(1, 60):
        message = push(number, MOVE, bytes(95))
        assert len(writer.message(message, 300)) - 9 <= 120
    with pytest.raises(SessionError, match="too_large"):
        writer.message(push(60, MOVE, bytes(105)), 300)
