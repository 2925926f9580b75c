"""Phones on a hub that runs: what each ack_policy does is what the journal says."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.hub.running import running, until

from wirelake.protocols.comet import layout as comet
from wirelake.traffic.live.connection import connect
from wirelake.traffic.live.journal import Journal
from wirelake.traffic.live.protocols.comet import Phone


@pytest.mark.parametrize(
    ("ack_policy", "acks"), [("prompt", 1), ("late", 1), ("twice", 2), ("never", 0)]
)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_temper(ack_policy: str, acks: int, sealed: bool) -> None:
    async def scene() -> Journal:
        journal = Journal()
        async with running(clients=["anna"], listeners=["comet"]) as it:

            def make() -> Phone:
                return Phone(journal, random.Random(1), "anna", ack_policy)

            phone = await connect(it.address("comet"), make)
            await phone.sign_on(it.tokens["anna"])
            if sealed:
                await phone.exchange_key()
            await phone.call(comet.Subscribe(topics=("@news",)))
            published = await it.publish("@news")
            phone.expect(published.id)
            await until(lambda: phone.idle, "everything has come")
            await phone.disconnect()
            assert journal.deliveries["comet", "anna", published.id].sends == 1
            assert journal.deliveries["comet", "anna", published.id].acks == acks
            await it.publish("@news")
            again = await connect(it.address("comet"), make)
            await again.sign_on(it.tokens["anna"])
            await again.fetch()
            await until(lambda: again.idle, "everything has come")
            await again.disconnect()
        return journal

    journal = asyncio.run(scene())
    assert len(journal.deliveries) == 2
    assert journal.connections[0].named("message_ack") == acks
    assert {call.outcome for call in journal.calls} == {"answered"}
    assert all(call.latency_max_ns and call.latency_max_ns > 0 for call in journal.calls)


def test_a_wrong_token_is_one_line() -> None:
    async def scene() -> None:
        async with running(clients=["anna"], listeners=["comet"]) as it:
            phone = await connect(
                it.address("comet"), lambda: Phone(Journal(), random.Random(1), "anna", "prompt")
            )
            try:
                await phone.sign_on("a throw-away token that is wrong")
            finally:
                await phone.disconnect()

    with pytest.raises(Exception, match="token expired or illegal"):
        asyncio.run(scene())
