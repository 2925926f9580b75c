"""Clients of the store that signed tokens sign on as.

A client needs a number and an inbox in the store, also one that only another system knows. It is
added at its first sign-on with a valid token, and marked as a client of that token's issuer. It is
removed like any other (`wirelake client remove`), and comes back with its next valid token, as
another client with an empty inbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..errors import HubError
from ..store import ClientRow, Store
from ..store.interface import AddAccount
from .claims import Proof
from .errors import RefusedTokenError
from .issuers import Issuers, account_token

__all__ = ["SignedClients"]

_COUNT_EVERY_S: Final = 600.0
"""How often the clients in the store are counted, because some may have been removed, or added by
another hub. A hundred thousand take 10 ms."""
_COUNT_FULL_S: Final = 60.0
"""How often, when there seem to be too many."""


class SignedClients:
    """Finds and adds clients."""

    def __init__(self, store: Store, issuers: Issuers, clock: Callable[[], float]):
        self._store = store
        self._issuers = issuers
        self._clock = clock
        self.max_clients = 0
        """How many there may be; further ones are refused."""
        self._count = 0
        self._counted_at = -_COUNT_EVERY_S

    async def find(self, proof: Proof, now_ms: int) -> ClientRow:
        """Return the client of a token; add it if it does not exist.

        RefusedTokenError when the client is of another issuer or of the store, HubError `too_busy`
        when there are too many.
        """
        row = await self._store.client(proof.client_id) or await self._added(proof, now_ms)
        if row is None or not self._issuers.allows_account(proof.issuer, row.token):
            raise RefusedTokenError(
                f"issuer {proof.issuer}: the store has a client {proof.client_id!r} that is not of "
                f"this issuer; remove it, rename one of them, or set store_clients"
            )
        return row

    async def _added(self, proof: Proof, now_ms: int) -> ClientRow | None:
        await self._check_count()
        self._count += 1  # before it is written: others sign on in the meantime
        token = account_token(proof.issuer)
        try:
            await self._store.execute(AddAccount("client", proof.client_id, token, now_ms))
        except HubError as error:
            self._count -= 1
            if error.code != "conflict":  # another connection has just added it
                raise
        return await self._store.client(proof.client_id)

    async def _check_count(self) -> None:
        age_s = self._clock() - self._counted_at
        full = self._count >= self.max_clients
        if age_s >= (_COUNT_FULL_S if full else _COUNT_EVERY_S):
            self._counted_at = self._clock()
            self._count = await self._store.marked_clients()
            full = self._count >= self.max_clients
        if full:
            text = f"more than {self.max_clients} clients; see auth.signed_clients"
            self._issuers.report(RefusedTokenError(text))
            raise HubError("too_busy", text)
