"""The page on the wire of services: its messages are those that a hub reads and writes.

A process by hand sends the page's messages as they are printed, and compares what the hub sends
with those that the page says it sends. Only the token is another.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.hub.listeners_esnp.peer import connected, run
from tests.hub.running import Running
from tests.serving.providers import EXAMPLE, alice, serving_hub

from wirelake.client import CallFailed
from wirelake.protocols import hub_calls
from wirelake.protocols.esnp import codec_seed
from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Data,
    Error,
    Flag,
    FlagType,
    Header,
    Message,
    MessageId,
    Row,
    SeqNo,
    SourceMessageId,
)
from wirelake.protocols.esnp.values import data_rows, value_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "services-wire.md"
TOKEN = "tABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"
_BYTES_PER_LINE = 12
_HEX = re.compile(r"^((?:[0-9a-f]{2} ?)+(?:  (?:[0-9a-f]{2} ?)+)?)", re.MULTILINE)


def _described(row: Row) -> str:
    match row:
        case Flag():
            return f"FLAG {FlagType(row.value).name}"
        case Address():
            return f"ADDRESS {AddressKind(row.kind).name} {row.value}"
        case MessageId():
            return f"MESSAGE_ID {row.value}"
        case SourceMessageId():
            return f"SOURCE_MESSAGE_ID {row.value}"
        case Header() | Data():
            kind = type(row).__name__.upper()
            value = value_of(row.value)
            return f"{kind} {row.name}" + ("" if isinstance(value, list) else f" = {value}")
        case SeqNo():
            return f"SEQ_NO {row.current} of {row.maximum}"
        case Error():
            return f"ERROR {row.value}"
    raise AssertionError(row)


def rendered(message: Message) -> str:
    """A message as the page prints it: each row's type and length, its body, and its meaning."""
    raw, position, lines = codec_seed.encode_message(message), 0, []
    for meaning in (*map(_described, message.rows), "END"):
        head = raw[position : position + 4]
        stop = position + 4 + int.from_bytes(head[1:], "big")
        body, position = raw[position + 4 : stop], stop
        pieces = [
            body[at : at + _BYTES_PER_LINE].hex(" ") for at in range(0, len(body), _BYTES_PER_LINE)
        ] or [""]
        lines.append(f"{head.hex(' ')}  {pieces[0]:<{3 * _BYTES_PER_LINE}} {meaning}")
        lines += [f"{'':13}{piece}" for piece in pieces[1:]]
    return "\n".join(lines)


def printed() -> list[tuple[str, Message]]:
    """The messages of the page, with the text of their blocks."""
    found = []
    for block in re.findall(r"```text\n(.*?)\n```", PAGE.read_text("utf-8"), re.DOTALL):
        if block.startswith(("1e", "11", "12")):
            digits = [
                line[: 13 + 3 * _BYTES_PER_LINE].replace(" ", "") for line in block.split("\n")
            ]
            raw = bytes.fromhex("".join(digits))
            message, stop = codec_seed.decode_message(raw, 0, len(raw))
            assert stop == len(raw)
            found.append((block, message))
    return found


def _with_token(message: Message, token: str) -> Message:
    (row,) = data_rows({"token": token})
    rows = [row if isinstance(e, Data) and e.name == "token" else e for e in message.rows]
    return Message(rows=tuple(rows))


class Reader:
    """Sends the messages of the page one after the other, and expects the hub's."""

    def __init__(self, it: Running, peer: Any):
        self.it = it
        self.peer = peer
        self._left = [message for _, message in printed()]

    def send(self) -> None:
        """Send the next message of the page."""
        token = self.it.tokens["demo-1"]
        message = _with_token(self._left.pop(0), token)
        self.peer.writer.write(codec_seed.encode_message(message))

    async def expect(self) -> None:
        """Receive the next message of the page."""
        got = await self.peer.message()
        assert rendered(got) == rendered(self._left.pop(0))

    @property
    def at_end(self) -> bool:
        return not self._left


def test_the_bytes_mean_what_is_printed_beside_them() -> None:
    blocks = printed()
    assert len(blocks) == 14
    for block, message in blocks:
        assert block == rendered(message)


def test_a_hub_reads_and_writes_these_messages() -> None:
    async def test() -> None:
        async with (
            serving_hub(listeners=["esnp", "tny"]) as it,
            connected(it) as peer,
            alice(it, "tny") as phone,
            alice(it) as client,
        ):
            page = Reader(it, peer)
            for _ in ("hub/auth", "hub/serve"):
                page.send()
                await page.expect()
            call = asyncio.ensure_future(phone.call(3001, {"a": 1, "b": 2}))
            await page.expect()
            page.send()
            assert (await call).data == {"c": 3}
            call = asyncio.ensure_future(phone.call(3001, {"a": 1}))
            await peer.message()
            page.send()
            with pytest.raises(CallFailed, match="missing argument 'b'"):
                await call
            call = asyncio.ensure_future(client.call("demo/count", {"n": 9}))
            request = await peer.message()
            number = next(row.value for row in request.rows if isinstance(row, MessageId))
            page.send()
            for part in range(2, 10):
                peer.write(
                    Flag(value=FlagType.RESP),
                    Flag(value=FlagType.REQUEST),
                    SeqNo(current=part),
                    SourceMessageId(value=number),
                    *data_rows({"i": part - 1}),
                )
            await page.expect()
            page.send()
            assert (await call).parts == 10
            limit = {"wirelake-timeout-ms": 50}
            call = asyncio.ensure_future(client.call("demo/count", {"n": 1}, headers=limit))
            await peer.message()
            await page.expect()
            page.send()
            with pytest.raises(CallFailed, match="did not answer within"):
                await call
            page.send()
            await page.expect()
            assert page.at_end
            assert not it.hub.counters.failures

    run(test())


def test_the_page_names_everything_that_is_declared() -> None:
    text = PAGE.read_text("utf-8")
    for name in (*hub_calls.CALLER_HEADERS, *hub_calls.SERVICE_CODES):
        assert f"`{name}`" in text
    for offer in hub_calls.Offer.__struct_fields__:
        assert f"`{offer}`" in text


def test_the_service_with_sockets_alone_is_small() -> None:
    source = EXAMPLE.read_text("utf-8")
    assert len(source.splitlines()) < 100
    assert re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE) == [
        "socket",
        "struct",
        "sys",
    ]
