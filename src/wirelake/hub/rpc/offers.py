"""Services that other processes offer: who offers what, and which process gets a call.

    Provider         where a call can be sent: one process, on its connection
    OfferedService   a service, and the providers that offer it
    Offers           adds and removes both; one per hub

An `OfferedService` is a `Service` among others in `Services`, so that listeners need not know where
a service runs. A call goes to the provider with the fewest calls under way, and of several of these
to the one whose turn is longest ago. When all have as many as they take, the call is refused: a
queue would only hide that there are too few processes.

A call that was sent is never sent again: it may have run.

To reach services elsewhere, another hub for example, implement `Provider` and call `Offers.offer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from wirelake.protocols.hub_calls import Offer, ServiceState

from ..config import ActiveLimits
from ..errors import HubError
from ..pubsub.subscriptions import Client
from .call_types import Call, Result, ServiceDefinitionError, read_object
from .services import Service, Services, check_name, check_number

__all__ = ["OfferedService", "Offers", "ProvidedCall", "Provider", "service_state"]

_SHOWN: Final = 3
"""Clients that an error names."""


@dataclass(frozen=True, slots=True)
class ProvidedCall:
    """A call on its way to a provider."""

    offer: Offer
    call: Call
    values: Mapping[str, Any]
    """The values of a JSON body by name; an ESNP call has its rows in `call`."""
    timeout_s: float
    """How long the answer may take, and each part after the one before."""


class Provider(Protocol):
    """Where calls can be sent."""

    @property
    def name(self) -> str:
        """The id of its client."""

    @property
    def peer(self) -> str:
        """Its address, as `host:port`."""

    @property
    def running(self) -> int:
        """Calls under way."""

    @property
    def limit(self) -> int:
        """How many there may be."""

    @property
    def has_room(self) -> bool:
        """Whether it can take one more."""

    @property
    def unexpected(self) -> int:
        """Answers to no call: second ones, and those that came too late."""

    def may_serve(self, name: str) -> bool:
        """Return whether it has the right to offer `service/op` now."""

    def accept(self, calls: int) -> int:
        """Note how many calls it takes at a time; return how many it gets."""

    async def call(self, request: ProvidedCall) -> Result:
        """Send a call and return its result, parts through `Call.part`; HubError.

        When this is cancelled, the call is.
        """


class OfferedService(Service):
    """A service that runs in other processes."""

    __slots__ = ("_limits", "_running", "offer", "providers")

    def __init__(self, services: Services, offer: Offer, limits: ActiveLimits):
        self.offer = offer
        """What all its providers offer alike."""
        # A dict as an ordered set: the first is the one whose turn is longest ago.
        self.providers: dict[Provider, None] = {}
        """Who offers it now; empty when all have left."""
        self._limits = limits
        self._running = 0
        # Rows of ESNP calls are passed on as they are, so no listener needs to read values.
        super().__init__(services, offer.name, immediate=False, wants_call=True, values=False)

    @property
    def signature(self) -> str:
        """Arguments and result, as its providers wrote them."""
        return self.offer.signature

    @property
    def numbers(self) -> Mapping[str, int]:
        """Its number in each protocol that has numbers."""
        return self.offer.numbers

    @property
    def where(self) -> list[str]:
        """The clients whose processes offer it."""
        return sorted(each.name for each in self.providers)

    @property
    def running(self) -> int:
        """Calls under way, in all processes."""
        return self._running

    def read(self, given: Mapping[str, Any] | bytes, call: Call) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the values of a JSON body, if the service wants them; HubError."""
        if isinstance(given, bytes):
            return read_object(given) if self.offer.values else {}
        return given

    async def outcome(self, call: Call, arguments: Mapping[str, Any]) -> Result | HubError:
        """Send the call to a provider."""
        limit_s = self._limits.current.service_s
        if call.timeout_s is not None:
            limit_s = min(limit_s, call.timeout_s)
        self._running += 1
        try:
            provider = self._next()
            return await provider.call(ProvidedCall(self.offer, call, arguments, limit_s))
        except HubError as error:
            return error
        finally:
            self._running -= 1

    def _next(self) -> Provider:
        """Return the provider that gets the next call; HubError when there is none."""
        allowed = [each for each in self.providers if each.may_serve(self.name)]
        if not allowed:
            raise HubError("unavailable", f"no process offers {self.name!r} now")
        with_room = [each for each in allowed if each.has_room]
        if not with_room:
            count = "1 process" if len(allowed) == 1 else f"{len(allowed)} processes"
            raise HubError("too_busy", f"{count} with {self.name!r}: no room for another call")
        found = min(with_room, key=lambda each: each.running)
        del self.providers[found]
        self.providers[found] = None
        return found


class Offers:
    """Adds what processes offer to the services of a hub, and removes it."""

    def __init__(self, services: Services, limits: ActiveLimits):
        self._services = services
        self._limits = limits
        self._offered: dict[str, OfferedService] = {}
        self._by_provider: dict[Provider, dict[str, OfferedService]] = {}

    @property
    def providers(self) -> Sequence[Provider]:
        """Every process that offers something."""
        return tuple(self._by_provider)

    @property
    def count(self) -> int:
        """The number of services that some process offers."""
        return sum(bool(each.providers) for each in self._offered.values())

    def of(self, provider: Provider) -> list[str]:
        """Return the names of the services that a process offers."""
        return sorted(self._by_provider.get(provider, ()))

    def offer(self, provider: Provider, offers: Iterable[Offer]) -> int:
        """Add the services of a process, all or none; return how many it offers now. HubError."""
        offers = tuple(offers)
        named: set[str] = set()
        for each in offers:
            if each.name in named:
                raise HubError("bad_arguments", f"{each.name!r} is offered twice")
            named.add(each.name)
            self._check(provider, each)
        self._check_numbers(offers)
        self._make_room(offers)
        mine = self._by_provider.setdefault(provider, {})
        for each in offers:
            service = self._service_of(each)
            service.providers[provider] = None
            mine[each.name] = service
        return len(mine)

    def withdraw(self, provider: Provider, names: Sequence[str] = ()) -> int:
        """Send no more calls of these services, or of all, to a process; those under way continue.

        Returns how many were withdrawn; HubError for a name that it does not offer.
        """
        mine = self._by_provider.get(provider, {})
        for name in names:
            if name not in mine:
                raise HubError("not_found", f"{name!r} is not offered on this connection")
        withdrawn = [mine.pop(name) for name in dict.fromkeys(names or tuple(mine))]
        for service in withdrawn:
            del service.providers[provider]
        if not mine:
            self._by_provider.pop(provider, None)
        return len(withdrawn)

    def _check(self, provider: Provider, offer: Offer) -> None:
        name, _, op = offer.name.partition("/")
        try:
            check_name(name, op)
            for protocol, number in offer.numbers.items():
                check_number(offer.name, protocol, number)
        except ServiceDefinitionError as error:
            raise HubError("bad_arguments", str(error)) from None
        if not provider.may_serve(offer.name):
            raise HubError(
                "forbidden",
                f"no right to offer {offer.name!r}; the operator grants it with serve in "
                "[[rights.clients]]",
            )
        known = self._services.named(name, op)
        if isinstance(known, OfferedService):
            self._check_same(provider, known, offer)
        elif known is not None:
            raise HubError("conflict", f"{offer.name!r} is a service of the hub itself")

    def _check_same(self, provider: Provider, known: OfferedService, offer: Offer) -> None:
        """Raise HubError when other processes offer the same service differently."""
        if known.offer == offer or not known.providers.keys() - {provider}:
            return
        theirs, mine = known.offer, offer
        if theirs.signature != mine.signature:
            what = f"with the signature {theirs.signature or '(none)'}, not {mine.signature}"
        elif theirs.numbers != mine.numbers:
            what = f"with the numbers {_numbers(theirs)}, not {_numbers(mine)}"
        else:
            what = "with other values of values and body"
        clients = ", ".join(known.where[:_SHOWN])
        raise HubError(
            "conflict",
            f"{offer.name!r} is offered by {clients} {what}; stop that process first, or give the "
            "new version another name",
        )

    def _check_numbers(self, offers: Sequence[Offer]) -> None:
        """Raise HubError when a number belongs to another service."""
        claimed: dict[tuple[str, int], str] = {}
        for offer in offers:
            for protocol, number in offer.numbers.items():
                taken = self._services.numbered(protocol).get(number)
                # A number of a service that nobody offers any more is free.
                idle = isinstance(taken, OfferedService) and not taken.providers
                owner = claimed.setdefault((protocol, number), offer.name)
                if taken is not None and not idle and taken.name != offer.name:
                    owner = taken.name
                if owner != offer.name:
                    raise HubError(
                        "conflict", f"{offer.name!r}: {protocol}={number} is used by {owner!r}"
                    )

    def _make_room(self, offers: Sequence[Offer]) -> None:
        """Forget services that nobody offers until the new ones fit; HubError when they do not."""
        # Forgotten as late as possible: until then their callers learn that no process offers them,
        # instead of that they do not exist.
        new = {each.name for each in offers} - self._offered.keys()
        limit = self._limits.current.offered_services
        excess = len(self._offered) + len(new) - limit
        named = {each.name for each in offers}
        idle = [e for e in self._offered.values() if not e.providers and e.name not in named]
        if excess > len(idle):
            raise HubError("too_busy", f"processes offer {limit} services already")
        for service in idle[: max(0, excess)]:
            self._forget(service)

    def _service_of(self, offer: Offer) -> OfferedService:
        """Return the service of an offer, new if there is none that is the same."""
        known = self._offered.get(offer.name)
        if known is not None and known.offer == offer:
            return known
        providers = {} if known is None else known.providers
        if known is not None:
            self._forget(known)
        for protocol, number in offer.numbers.items():
            taken = self._services.numbered(protocol).get(number)
            if isinstance(taken, OfferedService):
                self._forget(taken)
        made = OfferedService(self._services, offer, self._limits)
        made.providers = providers
        self._offered[offer.name] = made
        self._services.add(made)
        return made

    def _forget(self, service: OfferedService) -> None:
        del self._offered[service.name]
        self._services.remove(service)

    # -- lists -------------------------------------------------------------------------------

    def listed(
        self, client: Client | None, offset: int, limit: int
    ) -> tuple[int, list[ServiceState]]:
        """Return how many services a client may call, and the state of some of them by name."""
        rights = None if client is None else client.rights
        found = [
            each for each in self._services.every if rights is None or rights.may_call(each.name)
        ]
        found.sort(key=lambda each: each.name)
        return len(found), [service_state(each) for each in found[offset : offset + limit]]


def service_state(service: Service) -> ServiceState:
    """Return what there is to know about a service."""
    latency = service.latency
    return ServiceState(
        name=service.name,
        signature=service.signature,
        numbers=dict(service.numbers),
        where=service.where,
        running=service.running,
        calls=latency.count,
        failed=latency.failed,
        p50_us=latency.quantile_ns(0.5) // 1_000,
        p99_us=latency.quantile_ns(0.99) // 1_000,
    )


def _numbers(offer: Offer) -> str:
    return ", ".join(f"{name}={number}" for name, number in sorted(offer.numbers.items())) or "none"
