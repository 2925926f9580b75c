"""Bytes that are no ESNP, over a real socket: closed with a reason, others unhurt."""

from __future__ import annotations

import pytest
from tests.hub.listeners_esnp.peer import REQUEST, connected, esnp_hub, run, signed_on, to
from tests.hub.running import until

from wirelake.protocols.esnp.codec_seed import encode_message
from wirelake.protocols.esnp.layout import Message, MessageId, OpaqueRow, Payload, RowType


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "too_large"),
        (b"\x00\x00\x00\x01x", "bad_end"),
        (b"\xff" * 10_000, "too_large"),
    ],
)
def test_garbage_closes_without_an_answer(data: bytes, reason: str) -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as good:
            async with connected(it) as bad:
                bad.writer.write(data)
                await bad.closed()
            await until(lambda: len(it.hub.connections) == 1)
            assert it.hub.counters.failures["esnp", reason] == 1
            assert it.hub.counters.close_reasons["esnp", reason] == 1
            assert await good.ok("test/add", a=1, b=2) == {"c": 3}

    run(test())


def test_half_a_message_at_the_end() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it:
            async with connected(it) as peer:
                peer.writer.write(b"\x16\x00\x00\x10half")
                await peer.writer.drain()
                await until(lambda: [c.in_bytes for c in it.hub.connections.values()] == [8])
            await until(lambda: not it.hub.connections)
            assert it.hub.counters.failures["esnp", "short"] == 1

    run(test())


def test_many_tiny_messages_in_one_write() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            peer.writer.write(b"\0\0\0\0" * 64_000)  # empty messages mean nothing
            assert await peer.ok("test/add", a=1, b=2) == {"c": 3}

    run(test())


def test_a_request_byte_by_byte() -> None:
    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            rows = (REQUEST, *to("test/echo"), MessageId(value=900), Payload(data=b"slow"))
            (connection,) = it.hub.connections.values()
            for _ in range(2):
                for byte in encode_message(Message(rows=rows)):
                    before = connection.in_bytes
                    peer.writer.write(bytes([byte]))
                    await until(lambda: connection.in_bytes > before)  # noqa: B023
                assert (await peer.message()).rows[-1] == Payload(data=b"slow")

    run(test())


def test_a_frame_that_takes_for_ever() -> None:
    async def test() -> None:
        limits = {"frame_s": 0.01, "frame_bytes_per_s": 1e9}
        async with esnp_hub(clients=["alice"], limits=limits) as it, connected(it) as peer:
            peer.writer.write(b"\x16\x00\x00\x10half")
            await until(lambda: it.hub.counters.drops["esnp", "too_slow"])

    run(test())


@pytest.mark.parametrize(
    ("url", "values"),
    [
        ("test/add", {"b": 2}),  # the fast path
        ("test/sleep", {}),  # the ordinary one
        ("hub/subscribe", {}),
        ("hub/publish", {"topic": "@news"}),
        ("hub/ack", {}),
        ("hub/auth", {"id": "alice"}),
    ],
)
def test_a_broken_data_row_is_reported_as_broken(url: str, values: dict[str, object]) -> None:
    """It counts as absent, but the error must not look as if it had never been sent."""
    broken = OpaqueRow(type=RowType.DATA, data=b"\x02a\x0b\xff")  # a UInt64 without its end

    async def test() -> None:
        async with esnp_hub(clients=["alice"]) as it, signed_on(it, "alice") as peer:
            plain = await peer.refusal(url, **values)
            assert "broken" not in plain
            text = await peer.refusal(url, broken, **values)
            assert text.startswith(f"{plain}; a DATA row is broken: ")
            assert "varint_truncated in " in text
            # Whatever else is wrong stays as it is.
            assert "broken" not in await peer.refusal("test/fail", broken)
            assert await peer.ok("test/add", broken, a=1, b=2) == {"c": 3}

    run(test())
