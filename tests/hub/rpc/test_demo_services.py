"""The services for trying out, as each protocol calls them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.listeners.esnp import EsnpCall
from wirelake.hub.rpc.demo_services import demo_services
from wirelake.hub.rpc.services import Call, Reply, json_body
from wirelake.protocols.esnp.layout import Data, Header, Payload
from wirelake.protocols.esnp.values import var_of


def test_names_and_numbers() -> None:
    services = demo_services()
    for number, op in enumerate(("echo", "add", "sleep", "fail"), 1):
        service = services.named("test", op)
        assert service is not None
        assert (
            services.numbered("tny").get(1000 + number)
            is services.numbered("magline").get(0x1000 + number)
            is service
        )


def now(op: str, call: Call, given: Any) -> Any:
    service = demo_services().named("test", op)
    assert service is not None
    return service.now(None, call, given)


def test_echo_of_a_body_and_of_rows() -> None:
    assert now("echo", Call("tny", None, b"\x00 no JSON"), b"\x00 no JSON") == b"\x00 no JSON"
    rows = (Data(name="a", value=var_of(1)), Header(name="h", value=var_of(2)), Payload(data=b"x"))
    assert now("echo", EsnpCall("esnp", None, b"x", received=rows), {}) == Reply(
        rows=(rows[0], rows[2])
    )


@pytest.mark.parametrize(
    ("a", "b", "c"), [(1, 2, 3), (1.5, 1, 2.5), (-(1 << 62), 1, 1 - (1 << 62))]
)
def test_add(a: float, b: float, c: float) -> None:
    assert now("add", Call("tny", None), {"a": a, "b": b}) == {"c": c}
    assert now("add", Call("tny", None), json_body({"a": a, "b": b})) == {"c": c}


def test_fail_with_any_arguments() -> None:
    for given in (b"", b"nothing in particular", {"a": 1}):
        outcome = now("fail", Call("tny", None), given)
        assert isinstance(outcome, HubError)
        assert (outcome.code, outcome.text) == ("failed", "failed on request")


def test_sleep() -> None:
    class Line:
        client = None
        is_busy = False

        def __init__(self) -> None:
            self.work: list[asyncio.Future[Any]] = []

        def spawn(self, work: Any, held_bytes: int = 0) -> None:  # noqa: ARG002
            self.work.append(asyncio.ensure_future(work))

    async def run() -> list[Any]:
        service = demo_services().numbered("tny").get(1003)
        assert service is not None
        line, answers = Line(), []
        for given in (b'{"ms": 1}', b'{"ms": -1}', b'{"ms": 1000000}'):
            service.run(Call("tny", line), given, answers.append)
        await asyncio.gather(*line.work)
        return answers

    answers = asyncio.run(run())
    assert {"ms": 1} in answers
    assert [each.code for each in answers if isinstance(each, HubError)] == ["failed"] * 2
