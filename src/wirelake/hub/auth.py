"""Authentication: client ids and tokens, a delay for addresses that fail; and key files.

A token is one of the store, or one that an issuer has signed (`signed_tokens`). Every protocol
signs on here, so every protocol accepts both.

Every failed attempt doubles the delay of the next one from the same address, so guessing tokens
from one address is slow whatever the number of connections. Tokens have 256 random bits: this
protects the hub's time rather than the tokens.

A key file has a key of 32 bytes as 64 hex digits, and is readable only by its owner. Listeners of
protocols with static or pre-shared keys (magline, comet) read them here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .config import AuthSettings, ClientRights, ConfigError
from .errors import HubError
from .observe.counters import Counters
from .pubsub.subscriptions import Client, Receiver
from .pubsub.topics import Topics
from .rights import RightsTable
from .signed_tokens import (
    Credential,
    Issuers,
    Proof,
    RefusedTokenError,
    SignedClients,
    is_signed_credential,
    looks_signed,
)
from .store import ClientRow, Store
from .store.accounts import expiry_of, token_hash

__all__ = [
    "FORGET_S",
    "KEY_BYTES",
    "LONGEST_S",
    "SHORTEST_S",
    "Authority",
    "public_key_of",
    "read_key",
    "read_secret",
    "static_key",
    "warn_if_readable",
]

SHORTEST_S: Final = 0.25
"""Delay of an address after its first failure; each further one doubles it."""
LONGEST_S: Final = 4.0
"""Maximum delay: less than half of the time to sign on."""
FORGET_S: Final = 60.0
"""How long after the last failure an address is delayed."""
_ADDRESSES: Final = 10_000
"""Addresses remembered; beyond that the one with the oldest failure is forgotten."""
_NO_CLIENT: Final = ClientRow(0, "", bytes(32), 0, 1, bytes(32), 1)
"""Compared with the hash of a token when the client does not exist: no token is valid."""
_NEVER: Final = 1 << 63
_MAX_SECRET_BYTES: Final = 65_536
"""What is read of a file with a secret: keys in PEM have a few kilobytes."""
KEY_BYTES: Final = 32
"""Size of every key."""
_HEX: Final = re.compile(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}")
_log = logging.getLogger(__name__)
_warned: set[tuple[str, int, int]] = set()
"""Files that a warning was logged about: path, inode and time of the last change."""


class _Connection(Receiver, Protocol):
    def end(self, reason: str) -> None:
        """Close the connection as its protocol does."""


class Authority:
    """Checks tokens. Each check reads the store: another process may have changed it."""

    def __init__(
        self,
        store: Store,
        topics: Topics,
        counters: Counters,
        connections: Mapping[int, _Connection],
        clock: Callable[[], float],
        signed_on: Callable[[Any, Client], None],
    ):
        self._store = store
        self._topics = topics
        self._counters = counters
        self._connections = connections
        self._clock = clock
        self._signed_on = signed_on
        self._rights = RightsTable((), clock)
        self.issuers = Issuers(read_secret, clock)
        """Who signs tokens."""
        self._signed_clients = SignedClients(store, self.issuers, clock)
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self.id = 0
        """Its key in the `DeadlineScan`; no connection has this id."""
        topics.claimed = self._end_forbidden
        self._next_expiry_ms = _NEVER
        """When the first token of an open connection expires."""

    async def verify(self, client_id: str, token: str) -> ClientRow | None:
        """Return the client if this is its token; None otherwise."""
        try:
            client_id.encode()
        except UnicodeEncodeError:
            client_id = ""  # no client has an empty id
        row = await self._store.client(client_id)
        # Always a comparison, in constant time: the duration of a refusal must not tell whether the
        # client exists, or how much of the hash is right.
        expiry = expiry_of(row or _NO_CLIENT, token_hash(token), self._topics.now_ms())
        return None if expiry is None else row

    def delay(self, address: str) -> float:
        """Return how long the next attempt from this address is delayed, in seconds."""
        count, last = self._failures.get(address, (0, 0.0))
        if not count or self._clock() - last > FORGET_S:
            return 0.0
        return min(SHORTEST_S * 2.0 ** min(count - 1, 10), LONGEST_S)

    async def sign_on(self, connection: Receiver, client_id: str, token: str) -> Client:
        """Return the client, after the delay of its address; HubError `auth_failed`.

        It suspends only for a delay, for a store that is not embedded (`eager.start`), and for the
        first signed token of a client or a key.
        """
        # The delay comes before the check: a right token is delayed as long as a wrong one, so the
        # duration tells nothing.
        delay = self.delay(connection.charged_to)
        if delay:
            await asyncio.sleep(delay)
        found = await self._find(client_id, token) if connection.open else None
        if found is None:
            if connection.open:
                self._counters.auth_failures[connection.protocol] += 1
                self.failed(connection.charged_to)
            raise HubError("auth_failed")
        return await self._accept(connection, *found)

    async def _find(self, client_id: str, token: str) -> tuple[ClientRow, bytes] | None:
        """Return the client of a token and what to keep of the token; None if it is not valid."""
        if not looks_signed(token):
            row = await self.verify(client_id, token)
            return None if row is None else (row, token_hash(token))
        proof = await self.verify_signed(token, client_id)
        if proof is None:
            return None
        try:
            row = await self._signed_clients.find(proof, self._topics.now_ms())
        except RefusedTokenError as error:
            self.issuers.report(error)
            return None
        return row, Credential.of(proof).encoded()

    async def verify_signed(self, token: str, client_id: str | None) -> Proof | None:
        """Return what a signed token proves; None if it is not valid, which is logged.

        `client_id` is the id of the sign-on; None for a token that is used without one.
        """
        try:
            return await self.issuers.verify(token, client_id, self._topics.now_ms)
        except RefusedTokenError as error:
            if self.issuers.configured:
                self.issuers.report(error)
            return None

    async def resume(self, connection: Receiver, client_id: str, credential: bytes) -> bool:
        """Sign a client on that proved earlier that it has a token, of which this was kept.

        Return False when the client was removed or the token is not valid any more.
        """
        row = await self._store.client(client_id)
        if row is None or self._expiry(row, credential) is None:
            return False
        await self._accept(connection, row, credential)
        return True

    async def _accept(self, connection: Receiver, row: ClientRow, credential: bytes) -> Client:
        # While the client was looked up, the connection may have been closed, and a reload may have
        # removed the issuer of its token.
        if not connection.open or self._expiry(row, credential) is None:
            raise HubError("auth_failed")
        self._topics.detach(connection)  # anonymous until now: the subscriptions of that client end
        # After that: if it was this client until now, it may not be in memory any more.
        client = self._topics.client_of(row)
        connection.credential = credential
        self._still_valid(connection, row)
        signed = is_signed_credential(credential)
        self._sign_on(connection, client, Credential.decode(credential).rights if signed else None)
        return client

    def _sign_on(
        self, connection: Receiver, client: Client, claimed: ClientRights | None = None
    ) -> None:
        changed = claimed != _claimed(client)
        client.rights = self._rights.of(client.id, client.rights, claimed)
        self._end_forbidden(client)
        self._topics.enter(client)
        if changed and client.connections > 1:
            self._end_others(client, connection)
        self._signed_on(connection, client)

    def _end_others(self, client: Client, connection: Receiver) -> None:
        """Close the other connections of a client, which signed on with other rights."""
        # Subscriptions and notifications belong to the client, not to a connection: with rights of
        # their own, a connection with few of them would receive what another one subscribed to.
        for each in tuple(self._connections.values()):
            if each.client is client and each is not connection:
                each.end("replaced")

    def _expiry(self, row: ClientRow, credential: bytes) -> int | None:
        """Return when a credential expires (0: never); None when it is not valid for a client."""
        now_ms = self._topics.now_ms()
        if not is_signed_credential(credential):
            return expiry_of(row, credential, now_ms)
        signed = Credential.decode(credential)
        valid = self.issuers.accepts(signed, now_ms) and self.issuers.allows_account(
            signed.issuer, row.token
        )
        return signed.expires_ms if valid else None

    def _still_valid(self, connection: Receiver, row: ClientRow | None) -> bool:
        """Note when the token of a connection expires; return False when it is not valid now."""
        expiry = None if row is None else self._expiry(row, connection.credential)
        if expiry is None:
            return False
        connection.credential_expires_ms = expiry
        self._next_expiry_ms = min(self._next_expiry_ms, expiry or _NEVER)
        return True

    def check_deadlines(self, _: float) -> None:
        """Close the connections whose tokens have expired."""
        # By the wall clock, and only when a token expires: other scans cost one comparison.
        now_ms = self._topics.now_ms()
        if now_ms < self._next_expiry_ms:
            return
        self._next_expiry_ms = _NEVER
        for connection in tuple(self._connections.values()):
            expiry = connection.credential_expires_ms
            if 0 < expiry <= now_ms:
                connection.end("token_expired")
            elif expiry:
                self._next_expiry_ms = min(self._next_expiry_ms, expiry)

    def anonymous(self, connection: Receiver) -> Client:
        """Sign a connection on without a token; its client is not stored."""
        client = self._topics.anonymous(connection)
        self._sign_on(connection, client)
        return client

    def prepare_reload(self, settings: AuthSettings) -> Callable[[], None]:
        """Read the keys of issuers; return the function that applies the settings. ConfigError."""
        apply_issuers = self.issuers.prepare(settings)

        def apply() -> None:
            apply_issuers()
            self._signed_clients.max_clients = settings.signed_clients

        return apply

    def set_rights(self, entries: Sequence[ClientRights]) -> None:
        """Replace the rights of all clients; subscriptions that are not allowed any more end."""
        self._rights = RightsTable(entries, self._clock)
        clients = dict.fromkeys(self._topics.registry.clients.values())
        for connection in self._connections.values():
            if connection.client is not None:  # anonymous clients are known by their connection
                clients[connection.client] = None
        for client in clients:
            client.rights = self._rights.of(client.id, client.rights, _claimed(client))
            if ended := self._topics.revoke(client):
                self._log_ended(client, ended)

    def _end_forbidden(self, client: Client) -> None:
        """End subscriptions that a client has no right to, when it is in memory."""
        if client.loaded and (ended := self._topics.revoke(client)):
            self._log_ended(client, ended)

    def _log_ended(self, client: Client, topics: Sequence[str]) -> None:
        _log.warning("client %s: %d subscriptions ended by its rights", client.id, len(topics))

    def known(self) -> set[str]:
        """Return the ids of the clients that something is in memory of, for `recheck`."""
        return {*self._topics.registry.clients, *self._topics.keys.publishers()}

    def recheck(self, ids: Collection[str], rows: Iterable[ClientRow]) -> None:
        """Close the connections of clients that were removed, or whose token is not valid now.

        `ids` are those of the clients that were in memory (`known`), `rows` those of them that
        exist.
        """
        # By number, not by id: a client that was removed and added again is another one.
        known = {row.number: row for row in rows}
        for connection in tuple(self._connections.values()):
            client = connection.client
            # Who has signed on while the rows were read has just been checked.
            if client is None or not client.durable or client.id not in ids:
                continue
            if not self._still_valid(connection, known.get(client.number)):
                connection.end("revoked")
        for client in tuple(self._topics.registry.clients.values()):
            if client.id in ids and client.number not in known:
                self._topics.forget(client)
        for removed in set(ids).difference(row.id for row in known.values()):
            self._topics.keys.forget(removed)

    def forget_failures(self, address: str) -> None:
        """Forget the failures of an address."""
        self._failures.pop(address, None)

    def failed(self, address: str) -> None:
        """Count a failure of an address."""
        # Popped and inserted again: the dict is ordered by the last failure, and the first entry is
        # the one to forget. An attacker with many addresses cannot make it grow.
        now = self._clock()
        count, last = self._failures.pop(address, (0, now))
        if now - last > FORGET_S:
            count = 0
        self._failures[address] = (count + 1, now)
        if len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)


def _claimed(client: Client) -> ClientRights | None:
    """Return what the token of a client allows at most; None if it does not say."""
    return None if client.rights is None else client.rights.claimed


# -- key files -----------------------------------------------------------------------------------


def read_key(path: str | Path) -> bytes:
    """Read a key; a ConfigError never contains any part of it."""
    try:
        text = read_secret(path).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if _HEX.fullmatch(text) is None:
        raise ConfigError(
            f"{path}: invalid key; expected {2 * KEY_BYTES} hex digits and nothing else"
        )
    return bytes.fromhex(text)


def read_secret(path: str | Path) -> bytes:
    """Read a file with a secret; log a warning when other users can read it. OSError."""
    with Path(path).open("rb") as file:
        warn_if_readable(path, os.fstat(file.fileno()))
        return file.read(_MAX_SECRET_BYTES)


def warn_if_readable(path: str | Path, status: os.stat_result) -> None:
    """Log a warning about a file with a secret that other users can read."""
    # A file of another owner, such as a mounted secret, is given to this process by its group.
    group = stat.S_IRWXG if status.st_uid == os.geteuid() else 0
    if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_IRWXO | group):
        # Once: a start checks every file before it is used, and listeners may share one.
        file = (str(path), status.st_ino, status.st_ctime_ns)
        if file in _warned:
            return
        _warned.add(file)
        _log.warning("%s is readable by other users; run chmod 600", path)


def static_key(path: str | Path) -> bytes:
    """Read a static X25519 key, or create it; the public key is written beside it."""
    path = Path(path)
    if not path.exists():
        _create(path)
    private = read_key(path)
    _write_public(path.with_suffix(".pub"), public_key_of(private))
    return private


def public_key_of(private: bytes) -> bytes:
    """Return the public key of a static key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another process has just created it
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(os.urandom(KEY_BYTES).hex() + "\n")
        file.flush()
        os.fsync(handle)  # clients pin this key: it must not be lost with a power failure
    _log.info("created a static key: %s", path)


def _write_public(path: Path, public: bytes) -> None:
    """Write the public key unless it is up to date; a read-only folder is not an error."""
    text = public.hex().encode() + b"\n"  # for the clients' configuration
    try:
        if not path.exists() or path.read_bytes() != text:
            path.write_bytes(text)
    except OSError as error:
        _log.warning("cannot write %s: %s", path, error.strerror)
