"""Phones on a hub that runs: what each temper does is what the ledger says."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.hub.running import running, until

from wirelake.protocols.comet import layout as comet
from wirelake.traffic.live.connection import dial
from wirelake.traffic.live.journal import Ledger
from wirelake.traffic.live.phones import Phone


@pytest.mark.parametrize(
    ("temper", "acks"), [("prompt", 1), ("late", 1), ("twice", 2), ("never", 0)]
)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_temper(temper: str, acks: int, sealed: bool) -> None:
    async def scene() -> Ledger:
        ledger = Ledger()
        async with running(clients=["anna"], listeners=["comet"]) as it:

            def make() -> Phone:
                return Phone(ledger, random.Random(1), "anna", temper)

            phone = await dial(it.address("comet"), make)
            await phone.sign_on(it.tokens["anna"])
            if sealed:
                await phone.exchange_key()
            await phone.ask(comet.Subscribe(topics=("@news",)))
            published = await it.publish("@news")
            phone.expect(published.id)
            await until(lambda: phone.calm, "everything has come")
            await phone.hang_up()
            assert ledger.handed["anna", published.id].sends == 1
            assert ledger.handed["anna", published.id].acks == acks
            await it.publish("@news")
            again = await dial(it.address("comet"), make)
            await again.sign_on(it.tokens["anna"])
            await again.fetch()
            await until(lambda: again.calm, "everything has come")
            await again.hang_up()
        return ledger

    ledger = asyncio.run(scene())
    assert len(ledger.handed) == 2
    assert ledger.contacts[0].named("message_ack") == acks
    assert {call.outcome for call in ledger.calls} == {"answered"}
    assert all(call.latency_max_ns and call.latency_max_ns > 0 for call in ledger.calls)


def test_a_wrong_token_is_one_line() -> None:
    async def scene() -> None:
        async with running(clients=["anna"], listeners=["comet"]) as it:
            phone = await dial(
                it.address("comet"), lambda: Phone(Ledger(), random.Random(1), "anna", "prompt")
            )
            try:
                await phone.sign_on("a throw-away token that is wrong")
            finally:
                await phone.hang_up()

    with pytest.raises(Exception, match="token expired or illegal"):
        asyncio.run(scene())
