"""All issuers of a hub: which client a signed token is for, and whether that still holds.

A token is checked in this order: size and form, issuer, algorithm, key, signature, then claims. Up
to the signature nothing depends on the clients of the hub, so neither the answer nor its duration
tells a stranger whether a client exists. All refusals have the same answer; the log has the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wirelake.wire.errors import missing_dependency

from ..config import AuthSettings, ClientRights, ConfigError, Issuer
from ..eager import Background
from ..store.interface import TOKEN_HASH_BYTES
from .claims import Proof, check_claims
from .errors import RefusedTokenError
from .parsing import ParsedToken, parse_token

if TYPE_CHECKING:
    from .sources import KeySource, ReadFile

__all__ = ["Credential", "Issuers", "account_token", "is_signed_credential", "looks_signed"]

_TYPES: Final = ("jwt", "at+jwt")
"""Accepted types of tokens (`typ`), in lower case. Others, such as those of logouts, are signed
with the same keys and mean something else (RFC 8725 section 3.11)."""
_LOG_EVERY_S: Final = 10.0
"""How often the same reason is logged."""
_MAX_REASONS: Final = 1_000
_log = logging.getLogger(__name__)


class Credential(msgspec.Struct, frozen=True, array_like=True):
    """What a connection that has signed on with a signed token keeps of it: not the token."""

    issuer: str
    key: bytes
    """The thumbprint of the key."""
    expires_ms: int
    rights: ClientRights | None
    role: str = ""

    @classmethod
    def of(cls, proof: Proof) -> Credential:
        """Return what to keep of a token that proved this."""
        return cls(proof.issuer, proof.key, proof.expires_ms, proof.rights, proof.role)

    def encoded(self) -> bytes:
        """Return it as bytes, more than a hash has."""
        return _CREDENTIAL_MARK + msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Credential:
        """Return what was encoded."""
        return msgspec.msgpack.decode(data[len(_CREDENTIAL_MARK) :], type=cls)


_CREDENTIAL_MARK: Final = b"signed token "


def is_signed_credential(credential: bytes) -> bool:
    """Return whether this is a `Credential`, and not the hash of a token of the store."""
    return len(credential) > TOKEN_HASH_BYTES


def looks_signed(token: str) -> bool:
    """Return whether this is a signed token, valid or not; tokens of the store have no dots."""
    return token.count(".") == 2


def account_token(issuer: str) -> bytes:
    """Return what the store has in place of a hash for clients that this issuer's tokens added.

    No token has this hash, which is longer. A client belongs to one issuer: another one with the
    same id in its tokens cannot sign on as that client.
    """
    return b"issuer " + hashlib.sha256(issuer.encode()).digest()


class Issuers:
    """The issuers of the configuration, with their keys."""

    def __init__(self, read_secret: ReadFile, clock: Callable[[], float]):
        self._read_secret = read_secret
        self._clock = clock
        self._issuers: dict[str, tuple[Issuer, KeySource]] = {}
        self._logged: dict[str, float] = {}
        """By reason: when it was logged."""

    @property
    def configured(self) -> bool:
        """Whether there are any."""
        return bool(self._issuers)

    @property
    def key_counts(self) -> dict[str, int]:
        """The number of known keys of each issuer."""
        return {name: len(source.keys) for name, (_, source) in self._issuers.items()}

    def prepare(self, settings: AuthSettings) -> Callable[[], None]:
        """Read the files of new settings; return the function that applies them. ConfigError."""
        found: dict[str, tuple[Issuer, KeySource]] = {}
        if settings.issuers:
            make_source = _make_source()
        for number, issuer in enumerate(settings.issuers):
            source = make_source(issuer, f"auth.issuers[{number}]", self._read_secret)
            found[issuer.issuer] = (issuer, source)

        def apply() -> None:
            for name, (issuer, source) in found.items():
                # The keys of an address outlive a reload: it may be down at this moment.
                before = self._issuers.get(name)
                if before is not None and "://" in issuer.keys and before[0].keys == issuer.keys:
                    source.keys = before[1].keys
                source.start()
            background = Background(asyncio.get_running_loop())
            for _, source in self._issuers.values():
                background.start(source.stop())
            self._issuers = found

        return apply

    async def stop(self) -> None:
        """Stop reading addresses."""
        for _, source in self._issuers.values():
            await source.stop()

    async def verify(self, token: str, client_id: str | None, now_ms: Callable[[], int]) -> Proof:
        """Return what a token proves; RefusedTokenError. See `check_claims` for `client_id`."""
        parsed = parse_token(token)
        name = parsed.claims.get("iss")
        if not isinstance(name, str) or name not in self._issuers:
            raise RefusedTokenError("no such issuer is configured")
        issuer, source = self._issuers[name]
        algorithm, key_id = _header(parsed.header, issuer)
        key = _signer(parsed, source, algorithm, key_id)
        # A wrong signature of a key that is known by its id is no reason to read the keys again.
        known = key_id is not None and any(each.id == key_id for each in source.keys)
        if key is None and not known and await source.refreshed():
            key = _signer(parsed, source, algorithm, key_id)
        if key is None:
            raise RefusedTokenError(f"issuer {name}: the signature is of no known key")
        try:
            return check_claims(parsed.claims, issuer, key, client_id, now_ms() / 1000)
        except RefusedTokenError as error:
            raise RefusedTokenError(f"issuer {name}: {error}") from None

    def accepts(self, credential: Credential, now_ms: int) -> bool:
        """Return whether a credential is still valid: issuer and key too, not expired."""
        found = self._issuers.get(credential.issuer)
        if found is None or now_ms >= credential.expires_ms:
            return False
        return any(key.thumbprint == credential.key for key in found[1].keys)

    def allows_account(self, issuer: str, account: bytes) -> bool:
        """Return whether tokens of an issuer are accepted for a client of the store.

        `account` is what the store has of its token: a hash, or the mark of an issuer.
        """
        found = self._issuers.get(issuer)
        if found is None:
            return False
        return account == account_token(issuer) or (
            found[0].store_clients and len(account) == TOKEN_HASH_BYTES
        )

    def report(self, error: RefusedTokenError) -> None:
        """Log why a token was refused, each reason once in a while."""
        reason, now = str(error), self._clock()
        if now - self._logged.get(reason, -_LOG_EVERY_S) < _LOG_EVERY_S:
            return
        if len(self._logged) >= _MAX_REASONS:
            self._logged.clear()
        self._logged[reason] = now
        _log.warning("signed token refused: %s", reason)


def _header(header: dict[str, Any], issuer: Issuer) -> tuple[str, str | None]:
    """Return the algorithm and the id of the key that a token names."""
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise RefusedTokenError(
            f"issuer {issuer.issuer}: the algorithm is not one of {', '.join(issuer.algorithms)}"
        )
    if key_id is not None and not isinstance(key_id, str):
        raise RefusedTokenError(f"issuer {issuer.issuer}: the kid is not text")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
        raise RefusedTokenError(f"issuer {issuer.issuer}: a token of another type (typ)")
    if "crit" in header or "b64" in header:
        raise RefusedTokenError(f"issuer {issuer.issuer}: an extension that is not supported")
    return algorithm, key_id


def _signer(
    parsed: ParsedToken, source: KeySource, algorithm: str, key_id: str | None
) -> bytes | None:
    """Return the thumbprint of the key that signed a token; None if no known key did."""
    from .keys import has_signed, matching

    for key in matching(source.keys, key_id, algorithm):
        if has_signed(key, algorithm, parsed.signed, parsed.signature):
            return key.thumbprint
    return None


def _make_source() -> Callable[[Issuer, str, ReadFile], KeySource]:
    try:
        from .sources import make_source
    except ModuleNotFoundError as error:
        if error.name not in ("jwt", "h11"):
            raise
        name = "PyJWT" if error.name == "jwt" else error.name
        raise ConfigError(f"auth.issuers: {missing_dependency(name, 'jwt')}") from error
    return make_source
