"""Services: Python functions that clients of any protocol can call, in the hub's process or in
others (`offers.py`).

    services = Services()

    @services.service("test", "add", tny=1002, magline=0x1002)
    def add(a: int, b: int) -> dict[str, int]:
        return {"c": a + b}

A function may be plain (it runs on the event loop: keep it short), plain with `thread=True` (it
may block), `async`, or an async generator, whose items are streamed as an ESNP sequence and become
a JSON list elsewhere. It is cancelled when the caller's connection is closed.

An exception in a service is logged, and the caller gets `internal`; with `ServiceError` a service
reports a failure whose text the caller gets.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec

from wirelake.protocols import registry
from wirelake.protocols.hub_calls import HUB_SERVICE, RESERVED_NUMBERS, Offer

from ..errors import HubError
from ..observe.counters import LatencyHistogram
from ..pubsub.subscriptions import Client
from ..rights import Rights
from .call_types import (
    Answerer,
    Arguments,
    Call,
    Reply,
    Result,
    ServiceDefinitionError,
    ServiceError,
    json_body,
    signature_text,
)
from .defect_log import DefectLog

__all__ = [
    "Answerer",
    "Call",
    "FunctionService",
    "Reply",
    "Result",
    "Service",
    "ServiceDefinitionError",
    "ServiceError",
    "Services",
    "check_name",
    "check_number",
    "json_body",
]

_log = logging.getLogger(__name__)

_Kind: TypeAlias = Literal["plain", "thread", "async", "stream"]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Service(ABC):
    """What a call reaches: a function in the hub's process, or in processes that offer it.

    Listeners know no more than this class: neither where a service runs, nor how it is called.
    """

    __slots__ = ("_services", "immediate", "latency", "name", "takes_values", "wants_call")

    def __init__(
        self, services: Services, name: str, *, immediate: bool, wants_call: bool, values: bool
    ):
        self._services = services
        self.name = name
        """Its name in messages and metrics: `test/add`."""
        self.latency = LatencyHistogram()
        """Latency of its calls."""
        self.immediate = immediate
        """Whether `now` can be used: a plain function, whose result is the answer."""
        self.wants_call = wants_call
        """Whether the function takes the `Call`; otherwise `now` accepts None."""
        self.takes_values = values
        """Whether arguments have to be read; with only a `Call`, the function reads them itself."""

    # -- provided by subclasses --------------------------------------------------------------

    @property
    @abstractmethod
    def signature(self) -> str:
        """Its arguments and its result, for people."""

    @property
    @abstractmethod
    def numbers(self) -> Mapping[str, int]:
        """Its number in each protocol that has numbers."""

    @property
    @abstractmethod
    def where(self) -> list[str]:
        """Where it runs: `hub`, or the ids of the clients that offer it; empty for nowhere."""

    @property
    @abstractmethod
    def running(self) -> int:
        """Calls under way."""

    @abstractmethod
    def read(self, given: Mapping[str, Any] | bytes, call: Call) -> Any:
        """Return what `outcome` takes, from values by name or from a JSON body; HubError."""

    @abstractmethod
    async def outcome(self, call: Call, arguments: Any) -> Result | HubError:
        """Run one call."""

    # -- calls -------------------------------------------------------------------------------

    def run(self, call: Call, given: Mapping[str, Any] | bytes, answer: Answerer) -> None:
        """Call it with values by name, or with a JSON body.

        `answer` is called once with the result or the error, before this returns or later; not at
        all if the connection is closed first.
        """
        if self.immediate:
            answer(self.now(call.client, call, given))
            return
        begun_ns = perf_counter_ns()
        client = call.client
        try:
            if client is not None and client.rights is not None:
                self.check(client.rights)
            # Here, so that it holds for events, too, which no session counts.
            if call.connection.is_busy:
                raise HubError("too_busy", "too many concurrent calls")
            arguments = self.read(given, call)
        except HubError as error:
            self.latency.record_failure(begun_ns)
            answer(error)
            return
        # The task belongs to the connection, which cancels it when it closes; `running` is counted
        # down by a callback, because a cancelled task does not reach its end.
        task = asyncio.ensure_future(self._later(call, arguments, answer, begun_ns))
        self._services.running += 1
        task.add_done_callback(self._ended)
        call.connection.spawn(task, len(call.body))

    def now(
        self, client: Client | None, call: Call | None, given: Mapping[str, Any] | bytes
    ) -> Result | HubError:
        """Call a plain function for a client; `call` is used only if `wants_call`."""
        raise NotImplementedError(f"{self.name} is not immediate")

    def check(self, rights: Rights) -> None:
        """Raise HubError when a client with these rights may not call this, or not that often."""
        refusal = rights.call(self.name)
        if refusal is not None:
            raise refusal

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._services.running -= 1

    async def _later(self, call: Call, arguments: Any, answer: Answerer, begun_ns: int) -> None:
        outcome = await self.outcome(call, arguments)
        if isinstance(outcome, HubError):
            self.latency.record_failure(begun_ns)
        else:
            self.latency.record(begun_ns)
        answer(outcome)


class FunctionService(Service):
    """A function in this process."""

    __slots__ = ("_arguments", "_defects", "_function", "_numbers", "_running", "kind")

    def __init__(
        self,
        services: Services,
        name: str,
        function: Callable[..., Any],
        thread: bool,
        numbers: Mapping[str, int],
    ):
        self._function = function
        self._arguments = Arguments(function)
        self._numbers = numbers
        self._running = 0
        self._defects = DefectLog(_log)
        self.kind = _kind_of(function, thread)
        wants_call = self._arguments.wants_call
        super().__init__(
            services,
            name,
            immediate=self.kind == "plain",
            wants_call=wants_call,
            values=bool(self._arguments.names) or not wants_call,
        )

    @property
    def signature(self) -> str:
        """Arguments and result as they are written, without the `Call`."""
        return signature_text(self._function)

    @property
    def numbers(self) -> Mapping[str, int]:
        """Its number in each protocol that has numbers."""
        return self._numbers

    @property
    def where(self) -> list[str]:
        """The hub itself."""
        return ["hub"]

    @property
    def running(self) -> int:
        """Calls under way; a plain function has none."""
        return self._running

    def read(self, given: Mapping[str, Any] | bytes, call: Call) -> tuple[Any, ...]:
        """Return the arguments in the function's order; HubError."""
        return self._arguments.read(given, call)

    def now(
        self, client: Client | None, call: Call | None, given: Mapping[str, Any] | bytes
    ) -> Result | HubError:
        """Call a plain function for a client; `call` is used only if `wants_call`."""
        # The fast path: no task, no callback, no coroutine, and errors are returned, not raised. A
        # call costs 6 to 8 µs in all (132,000 to 152,000 per second, benchmarks/results/hub.json,
        # rpc), less than scheduling a task for it.
        begun_ns = perf_counter_ns()
        try:
            if client is not None and client.rights is not None:
                self.check(client.rights)
            result = self._function(*self._arguments.read(given, call))
        except HubError as error:
            self.latency.record_failure(begun_ns)
            return error
        except Exception:
            self.latency.record_failure(begun_ns)
            return self._failed()
        self.latency.record(begun_ns)
        if result is None or type(result) in _COMMON_RESULTS:
            return result  # type: ignore[no-any-return]
        return self._checked(result)

    async def outcome(self, call: Call, arguments: tuple[Any, ...]) -> Result | HubError:
        """Run the function."""
        self._running += 1
        try:
            if self.kind == "stream":
                return await self._stream(call, arguments)
            if self.kind == "thread":
                result = await asyncio.to_thread(self._function, *arguments)
            else:
                result = await self._function(*arguments)
        except HubError as error:
            return error
        except Exception:
            return self._failed()
        finally:
            self._running -= 1
        return self._checked(result)

    async def _stream(self, call: Call, values: tuple[Any, ...]) -> Result | HubError:
        collected: list[Any] = []
        # `aclosing`: a caller that disconnects cancels this, and the generator's `finally` runs
        # now, not when it is collected.
        async with contextlib.aclosing(self._function(*values)) as items:
            async for item in items:
                outcome = self._checked(item)
                if isinstance(outcome, HubError):
                    return outcome
                if call.part is None:
                    collected.append(item)
                else:
                    await call.part(outcome)
        return collected if call.part is None else None

    def _checked(self, result: Any) -> Result | HubError:
        if result is None or isinstance(result, dict | bytes | msgspec.Struct):
            return result
        self._defects.error(f"service {self.name} returned an unsupported {type(result).__name__}")
        return HubError("internal")

    def _failed(self) -> HubError:
        # The caller gets no text of an exception: it may contain internals or secrets.
        self._defects.error(f"service {self.name} raised an exception", exc_info=True)
        return HubError("internal")


_COMMON_RESULTS: Final = frozenset({dict, bytes, Reply})


def _kind_of(function: Callable[..., Any], thread: bool) -> _Kind:
    name = function.__name__
    if inspect.isgeneratorfunction(function):
        raise ServiceDefinitionError(f"{name}: use an async generator to stream")
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        if thread:
            raise ServiceDefinitionError(f"{name}: thread=True is for plain functions")
        return "stream" if inspect.isasyncgenfunction(function) else "async"
    return "thread" if thread else "plain"


class Services:
    """All services of a hub, by name and by the numbers of each protocol."""

    def __init__(self) -> None:
        self.running = 0
        """Number of running calls; a drain waits until it is 0."""
        self._named: dict[tuple[str, str], Service] = {}
        self._numbered: dict[str, dict[int, Service]] = {}
        self._declared: list[tuple[str, str, dict[str, int], Callable[..., Any], bool]] = []

    def service(
        self,
        service: str,
        op: str,
        *,
        thread: bool = False,
        **numbers: int,
    ) -> Callable[[_Function], _Function]:
        """Make a function callable as `service/op`, and by number with protocols that have numbers:
        `tny=1002`."""

        def declare(function: _Function) -> _Function:
            self._add(service, op, numbers, function, thread)
            return function

        return declare

    def include(self, other: Services) -> None:
        """Add all services of another set."""
        for declaration in other._declared:
            self._add(*declaration)

    @property
    def every(self) -> tuple[Service, ...]:
        """All services."""
        return tuple(self._named.values())

    def named(self, service: str, op: str) -> Service | None:
        """Return the service `service/op`."""
        return self._named.get((service, op))

    def numbered(self, protocol: str) -> Mapping[int, Service]:
        """Return the services of a protocol by number.

        A listener keeps the mapping, so that a call costs one lookup; services that are added
        later appear in it.
        """
        return self._numbered.setdefault(protocol, {})

    def _add(
        self,
        service: str,
        op: str,
        numbers: dict[str, int],
        function: Callable[..., Any],
        thread: bool,
    ) -> None:
        name = f"{service}/{op}"
        check_name(service, op)
        if (service, op) in self._named:
            raise ServiceDefinitionError(f"{name}: already exists")
        for protocol, number in numbers.items():
            check_number(name, protocol, number)
            if (taken := self.numbered(protocol).get(number)) is not None:
                raise ServiceDefinitionError(
                    f"{name}: {protocol}={number} is already used by {taken.name}"
                )
        self.add(FunctionService(self, name, function, thread, numbers))
        self._declared.append((service, op, numbers, function, thread))

    # -- services of other processes ---------------------------------------------------------

    def offers(self) -> list[Offer]:
        """Return these services as a process offers them to a hub."""
        return [
            Offer(
                name=each.name,
                signature=each.signature,
                numbers=dict(each.numbers),
                values=each.takes_values,
                body=each.wants_call,
            )
            for each in self.every
        ]

    def add(self, service: Service) -> None:
        """Add a service that was checked, with its numbers."""
        name, _, op = service.name.partition("/")
        self._named[name, op] = service
        for protocol, number in service.numbers.items():
            self.numbered(protocol)
            self._numbered[protocol][number] = service

    def remove(self, service: Service) -> None:
        """Remove a service, with its numbers."""
        name, _, op = service.name.partition("/")
        del self._named[name, op]
        for protocol, number in service.numbers.items():
            del self._numbered[protocol][number]


def _max_number(protocol: str) -> int | None:
    """Return the largest service number of a protocol; None when it has none."""
    try:
        binding = registry.binding(protocol)
    except registry.RegistryError:
        return None
    return binding.max_number if binding.addressing == "numbers" else None


def check_name(service: str, op: str) -> None:
    """Raise ServiceDefinitionError for a name that no service can have."""
    if not service or not op or service == HUB_SERVICE or "/" in service:
        raise ServiceDefinitionError(
            f"{service}/{op}: expected a service other than {HUB_SERVICE!r}, and an op"
        )


def check_number(name: str, protocol: str, number: int) -> None:
    """Raise ServiceDefinitionError for a number that no service of the protocol can have."""
    most = _max_number(protocol)
    if most is None:
        bindings = registry.all_bindings()[0].items()
        numbered = [each for each, binding in bindings if binding.addressing == "numbers"]
        raise ServiceDefinitionError(
            f"{name}: {protocol}={number}: expected a protocol with service numbers: "
            f"{', '.join(numbered)}"
        )
    if number in RESERVED_NUMBERS or not 0 < number <= most:
        raise ServiceDefinitionError(
            f"{name}: {protocol}={number}: expected 1 to {most}, without "
            f"{RESERVED_NUMBERS.start} to {RESERVED_NUMBERS.stop - 1}, which are reserved"
        )
