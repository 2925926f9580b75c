"""Access to the HTTP interface: tokens with roles, delays after wrong tokens, the Host header.

The administrator's token (`admin.token`) has the role `operator`; other tokens belong to users of
the store (`wirelake user add`), or are signed by an issuer that may give roles (`role_claim`). On a
loopback address, endpoints of the role `metrics` need no token; on any other address every endpoint
needs one.

A browser on the hub's machine can be made to send requests to the loopback address under a name of
an attacker's domain (DNS rebinding). Such a request has that name as its Host, so on a loopback
address only names that the configuration lists are accepted.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wirelake.protocols.binding import is_loopback

from ..errors import HubError
from ..net.acceptor import charged_address
from ..roles import Role
from ..signed_tokens import Credential, is_signed_credential, looks_signed
from ..store.accounts import expiry_of, token_hash
from .http import error_response

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["Access", "Grant", "HostCheck", "Page", "host_allowed"]

Page: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Handles a request."""

_COUNTED_AS: Final = "admin"
"""The label of wrong tokens in `wirelake_auth_failures_total`."""
_DELAYED_PER_ADDRESS: Final = 4
_DELAYED: Final = 32
"""Requests with a token that may be delayed at the same time, of one address and of all. Further
ones get `too_busy`, so that guesses in parallel are not faster, and do not hold connections."""


class Grant(NamedTuple):
    """A valid token."""

    user: str
    """Its user; empty for the administrator's."""
    role: Role
    credential: bytes
    """Its hash; of a signed token what it proves."""


class Access:
    """Checks the tokens of requests."""

    def __init__(self, hub: Hub, token: str):
        self._hub = hub
        self._admin = token_hash(token)
        self._delayed: Counter[str] = Counter()

    def guard(self, role: Role, page: Page) -> Page:
        """Return a page that answers only to tokens with this role."""
        if role is Role.METRICS and is_loopback(self._hub.config.admin.host):
            return page

        async def guarded(request: Request) -> Response:
            grant = await self._grant(request)
            if grant.role < role:
                raise HubError(
                    "forbidden", f"needs the role {role.label}; this token has {grant.role.label}"
                )
            request.state.still_granted = lambda: self._still_granted(grant, role)
            return await page(request)

        return guarded

    async def _grant(self, request: Request) -> Grant:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise HubError(
                "auth_required",
                "expected the header Authorization: Bearer <content of admin.token>",
            )
        # As for clients, the delay of an address comes before the check of the token.
        address = "" if request.client is None else charged_address(request.client.host)
        await self._delay(address)
        grant = await self._find_token(token.strip())
        authority = self._hub.authority
        if grant is None:
            self._hub.counters.auth_failures[_COUNTED_AS] += 1
            authority.failed(_key(address))
            raise HubError("auth_required", "the token is wrong or has expired")
        if grant.role is Role.OPERATOR:
            # An old token in some script must not slow the administrator of this machine down.
            authority.forget_failures(_key(address))
        return grant

    async def _delay(self, address: str) -> None:
        delay = self._hub.authority.delay(_key(address))
        if not delay:
            return
        delayed = self._delayed
        if delayed[address] >= _DELAYED_PER_ADDRESS or delayed.total() >= _DELAYED:
            raise HubError("too_busy", "too many wrong tokens; try again later")
        delayed[address] += 1
        try:
            await asyncio.sleep(delay)
        finally:
            delayed[address] -= 1
            if not delayed[address]:
                del delayed[address]

    async def _find_token(self, token: str) -> Grant | None:
        if not looks_signed(token):
            return await self._find(token_hash(token))
        proof = await self._hub.authority.verify_signed(token, None)
        return None if proof is None else self._find_signed(Credential.of(proof), proof.client_id)

    def _find_signed(self, signed: Credential, user: str) -> Grant | None:
        if not self._hub.authority.issuers.accepts(signed, self._hub.topics.now_ms()):
            return None
        try:  # without a role claim it is a token for clients
            return Grant(user, Role.of(signed.role), signed.encoded())
        except ValueError:
            return None

    async def _find(self, token: bytes) -> Grant | None:
        if hmac.compare_digest(token, self._admin):
            return Grant("", Role.OPERATOR, token)
        # Read for each request: a user who is removed, or whose token expires, is refused at once.
        row = await self._hub.store.user(token)
        if row is None or expiry_of(row, token, self._hub.topics.now_ms()) is None:
            return None
        try:
            return Grant(row.id, Role.of(row.role), token)
        except ValueError:  # a role of a newer version
            return None

    async def _still_granted(self, grant: Grant, role: Role) -> bool:
        """Return whether a token that was accepted earlier still is; for endless responses."""
        try:
            if is_signed_credential(grant.credential):
                found = self._find_signed(Credential.decode(grant.credential), grant.user)
            else:
                found = await self._find(grant.credential)
        except HubError:  # the store cannot be read
            return False
        return found is not None and found.role >= role


def _key(address: str) -> str:
    """Return the key of an address: its wrong tokens do not delay the clients behind it."""
    return f"{_COUNTED_AS} {address}"


# -- the Host header -----------------------------------------------------------------------------


class HostCheck:
    """ASGI middleware that refuses requests for other hosts."""

    def __init__(self, app: ASGIApp, hub: Hub):
        self._app = app
        self._hub = hub
        self._bound = hub.config.admin.host  # a reload changes `hosts`, not where the hub listens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with `forbidden`."""
        if scope["type"] == "http":
            host = Headers(scope=scope).get("host", "")
            if not host_allowed(host, self._bound, self._hub.config.admin.hosts):
                error = HubError("forbidden", f"unknown host {host[:100]!r}; see admin.hosts")
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_allowed(host: str, bound: str, hosts: Sequence[str]) -> bool:
    """Return whether a request with this Host header is accepted.

    `bound` is where the hub listens, `hosts` is `admin.hosts`.
    """
    name = _without_port(host).lower().rstrip(".")
    # No Host: a client of HTTP/1.0, which no browser is. An address was not resolved from a name.
    if not name or name == "localhost" or _is_address(name):
        return True
    if name in {each.lower() for each in (*hosts, bound)}:
        return True
    # Off loopback every endpoint needs a token, which a page of another domain does not have.
    return not hosts and not is_loopback(bound)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    name = name if colon and port.isdigit() else host
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
