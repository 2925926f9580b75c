"""Functions as services: how they run, what they return, how they fail."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.rpc import call_types
from wirelake.hub.rpc.defect_log import DefectLog
from wirelake.hub.rpc.services import (
    Call,
    Reply,
    Service,
    ServiceDefinitionError,
    ServiceError,
    Services,
    json_body,
)


class Line:
    """What a service knows of a connection: it does work that ends with it."""

    client = None
    is_busy = False

    def __init__(self) -> None:
        self.tasks: list[asyncio.Future[Any]] = []

    def spawn(self, work: Awaitable[Any], held_bytes: int = 0) -> None:  # noqa: ARG002
        self.tasks.append(asyncio.ensure_future(work))

    async def lost(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def made(function: Callable[..., Any], **options: Any) -> tuple[Services, Service]:
    services = Services()
    services.service("test", "it", **options)(function)
    found = services.named("test", "it")
    assert found is not None
    return services, found


def outcome(function: Callable[..., Any], given: Any = b"{}", **options: Any) -> Any:
    """What a call of the function is answered with, once."""

    async def run() -> Any:
        services, service = made(function, **options)
        line, answers = Line(), []
        service.run(Call("tny", line), given, answers.append)
        assert bool(line.tasks) != bool(answers)
        assert not (service.immediate and line.tasks)
        assert services.running == len(line.tasks)
        await asyncio.gather(*line.tasks)
        assert services.running == 0
        (answer,) = answers
        return answer

    return asyncio.run(run())


def refused(function: Callable[..., Any], given: Any = b"{}", **options: Any) -> tuple[str, str]:
    error = outcome(function, given, **options)
    assert isinstance(error, HubError)
    return error.code, error.text


# -- results ---------------------------------------------------------------------------------


def add(a: int, b: int) -> dict[str, int]:
    return {"c": a + b}


async def add_later(a: int, b: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"c": a + b}


async def count(upto: int) -> AsyncIterator[dict[str, int]]:
    for number in range(upto):
        yield {"n": number}


def test_plain_async_and_thread() -> None:
    given = {"a": 1, "b": 2}
    assert outcome(add, given) == {"c": 3}
    assert outcome(add, b'{"a": 1, "b": 2}') == {"c": 3}
    assert outcome(add_later, given) == {"c": 3}
    assert outcome(add, given, thread=True) == {"c": 3}


def test_a_thread_is_another_thread() -> None:
    def where() -> dict[str, bool]:
        return {"main": threading.current_thread() is threading.main_thread()}

    assert outcome(where) == {"main": True}
    assert outcome(where, thread=True) == {"main": False}


def test_a_stream_is_collected_where_nothing_can_be_streamed() -> None:
    assert outcome(count, {"upto": 3}) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert outcome(count, {"upto": 0}) == []


def test_a_stream_is_sent_part_by_part() -> None:
    async def run() -> None:
        _, service = made(count)
        line, parts, answers = Line(), [], []

        async def part(result: Any) -> None:
            assert not answers
            parts.append(result)

        service.run(Call("esnp", line, part=part), {"upto": 2}, answers.append)
        await asyncio.gather(*line.tasks)
        assert parts == [{"n": 0}, {"n": 1}]
        assert answers == [None]

    asyncio.run(run())


class Point(msgspec.Struct):
    """A result of a class of its own."""

    x: int


@pytest.mark.parametrize(
    ("result", "body"),
    [
        (None, b""),
        (b"\xff", b"\xff"),
        ({"a": 1}, b'{"a":1}'),
        (Point(1), b'{"x":1}'),
        ([{"a": 1}, Point(2)], b'[{"a":1},{"x":2}]'),
        (Reply(), b""),
        (Reply(payload=b"p"), b"p"),
        (Reply(data={"a": 1}), b'{"a":1}'),
        (Reply(data={"a": 1}, payload=b"p"), b'{"a":1,"payload_base64":"cA=="}'),
    ],
)
def test_json_bodies(result: Any, body: bytes) -> None:
    assert json_body(result) == body


def test_what_is_no_json(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 5.0
    monkeypatch.setattr("wirelake.hub.rpc.defect_log.monotonic", lambda: now)
    monkeypatch.setattr(call_types, "_defects", DefectLog(logging.getLogger("defects")))
    for _ in range(2):
        for result in ({"a": object()}, {"a": "\ud800"}, Reply(data={"a": object()})):
            with pytest.raises(HubError) as caught:
                json_body(result)
            assert caught.value.code == "internal"
        now += 1.0
    first, second = caplog.records
    assert "cannot be encoded as JSON" in first.getMessage()
    assert second.getMessage().endswith("(2 more since the last message)")


# -- failures --------------------------------------------------------------------------------


def fails() -> None:
    raise ServiceError("out of paper")


async def fails_later() -> None:
    raise ServiceError("out of paper")


async def fails_midway() -> AsyncIterator[dict[str, int]]:
    yield {"n": 0}
    raise ServiceError("out of paper")


@pytest.mark.parametrize("function", [fails, fails_later, fails_midway])
def test_a_service_returns_an_error(function: Callable[..., Any]) -> None:
    assert refused(function) == ("failed", "out of paper")


def test_a_service_may_refuse_as_the_hub_does() -> None:
    def refuse() -> None:
        raise HubError("forbidden")

    assert refused(refuse)[0] == refused(refuse, thread=True)[0] == "forbidden"


def breaks() -> None:
    raise KeyError("secret of the service")


async def breaks_later() -> None:
    raise KeyError("secret of the service")


async def breaks_midway() -> AsyncIterator[dict[str, int]]:
    yield {"n": 0}
    raise KeyError("secret of the service")


@pytest.mark.parametrize("function", [breaks, breaks_later, breaks_midway])
def test_an_exception_is_logged_and_not_sent(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    code, text = refused(function)
    assert code == "internal"
    assert "secret" not in text
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "service test/it raised an exception"
    assert record.exc_info is not None


def number() -> int:
    return 5


async def numbers() -> AsyncIterator[int]:
    yield 5


@pytest.mark.parametrize("function", [number, numbers])
def test_a_result_of_no_known_type(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert refused(function)[0] == "internal"
    assert "service test/it returned an unsupported int" in caplog.text


@pytest.mark.parametrize("function", [add, add_later])
def test_wrong_arguments(function: Callable[..., Any]) -> None:
    assert refused(function, {"a": 1})[0] == "bad_arguments"


# -- the end of the connection ---------------------------------------------------------------


@pytest.mark.parametrize("turns", [0, 3])
def test_a_call_ends_with_its_connection(turns: int) -> None:
    async def run() -> None:
        began, ended = [], []

        async def wait() -> None:
            began.append(True)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        services, service = made(wait)
        line, answers = Line(), []
        service.run(Call("tny", line), b"", answers.append)
        for _ in range(turns):
            await asyncio.sleep(0)
        assert services.running == 1
        await line.lost()
        assert services.running == 0
        assert answers == []
        assert began == ended == ([True] if turns else [])

    asyncio.run(run())


def test_a_stream_ends_with_its_connection() -> None:
    async def run() -> None:
        ended = []

        async def forever() -> AsyncIterator[None]:
            try:
                while True:
                    await asyncio.sleep(0)
                    yield None
            finally:
                ended.append(True)

        services, service = made(forever)
        line = Line()
        service.run(Call("tny", line), b"", pytest.fail)
        for _ in range(5):
            await asyncio.sleep(0)
        await line.lost()
        assert ended == [True]
        assert services.running == 0

    asyncio.run(run())


# -- declaring -------------------------------------------------------------------------------


def test_names_and_numbers() -> None:
    services = Services()
    assert services.service("test", "add", tny=1002, magline=0x1002)(add) is add
    found = services.named("test", "add")
    assert found is not None
    assert found.name == "test/add"
    assert services.numbered("tny").get(1002) is services.numbered("magline").get(0x1002) is found
    assert (
        services.named("test", "sub")
        is services.numbered("tny").get(1)
        is services.numbered("magline").get(1002)
        is None
    )


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"service": "hub", "op": "x"}, "other than 'hub'"),
        ({"service": "", "op": "x"}, "expected a service"),
        ({"service": "a", "op": ""}, "and an op"),
        ({"service": "test", "op": "add"}, "already exists"),
        ({"service": "a", "op": "b", "tny": 1}, "tny=1 is already used by test/add"),
        ({"service": "a", "op": "b", "magline": 2}, "magline=2 is already used by test/add"),
        ({"service": "a", "op": "b", "tny": 13}, "reserved"),
        ({"service": "a", "op": "b", "tny": 1 << 31}, "tny=2147483648: expected 1 to 2147483647"),
        ({"service": "a", "op": "b", "magline": 0}, "magline=0: expected 1 to 4294967295"),
    ],
)
def test_what_cannot_be_declared(where: dict[str, Any], words: str) -> None:
    services = Services()
    services.service("test", "add", tny=1, magline=2)(add)
    with pytest.raises(ServiceDefinitionError, match=words):
        services.service(**where)(number)
    assert services.named("a", "b") is None


def test_functions_of_the_wrong_kind() -> None:
    def generator() -> Any:
        yield

    services = Services()
    with pytest.raises(ServiceDefinitionError, match="async generator"):
        services.service("a", "b")(generator)
    with pytest.raises(ServiceDefinitionError, match="thread=True is for plain"):
        services.service("a", "b", thread=True)(add_later)


def test_sets_can_be_put_together() -> None:
    one, two = Services(), Services()
    one.service("test", "add", tny=1)(add)
    two.service("test", "number", tny=2)(number)
    one.include(two)
    assert one.numbered("tny").get(2) is not None
    with pytest.raises(ServiceDefinitionError, match="already exists"):
        one.include(two)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_defect_is_logged_once_per_second(
    asynchronous: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 5.0
    monkeypatch.setattr("wirelake.hub.rpc.defect_log.monotonic", lambda: now)

    def fail() -> None:
        raise ValueError("a defect")

    async def fail_later() -> None:
        fail()

    async def run() -> None:
        nonlocal now
        _, service = made(fail_later if asynchronous else fail)
        line, answers = Line(), []
        for _ in range(2):
            for _ in range(50):
                service.run(Call("tny", line), b"", answers.append)
            await asyncio.gather(*line.tasks)
            now += 1.0
        assert [each.code for each in answers if isinstance(each, HubError)] == ["internal"] * 100

    asyncio.run(run())
    first, second = caplog.records
    assert first.getMessage() == "service test/it raised an exception"
    assert first.exc_info is not None
    assert second.getMessage().endswith("(49 more since the last message)")
