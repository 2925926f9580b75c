"""What a token with a valid signature says: who, until when, and with which rights.

Time is an argument. Claims that the hub does not know are ignored (RFC 7519 section 4).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from ..config import ClientRights, ConfigError, Issuer
from ..store.accounts import check_id
from ..store.interface import StoreError
from .errors import RefusedTokenError

__all__ = ["Proof", "check_claims"]

_MAX_TIME_S: Final = 1e11
"""The latest time: the year 5138. A larger one is in milliseconds, which is a mistake."""

_SHOWN: Final = 200
"""Characters of what is wrong with a claim, which may contain a long pattern."""


class Proof(NamedTuple):
    """What a valid token proves."""

    client_id: str
    issuer: str
    key: bytes
    """The thumbprint of the key that signed it."""
    expires_ms: int
    """From when on it is not valid any more."""
    rights: ClientRights | None
    """What the client may do at most; None: the token does not say."""
    role: str = ""
    """Its role in the HTTP API; empty: none."""


def check_claims(
    claims: dict[str, Any], issuer: Issuer, key: bytes, client_id: str | None, now_s: float
) -> Proof:
    """Return what the claims prove; RefusedTokenError.

    `client_id` is the id that a client signs on with; empty takes that of the token. None: the
    token is used for a role in the HTTP API, and needs no id.
    """
    if claims.get("iss") != issuer.issuer:
        raise RefusedTokenError("the claim iss is another issuer")
    audience = claims.get("aud")
    if issuer.audience not in (audience if isinstance(audience, list) else [audience]):
        raise RefusedTokenError(f"the claim aud does not contain {issuer.audience!r}")
    expires_s = _time(claims, "exp")
    if expires_s is None:
        raise RefusedTokenError("the claim exp is missing")
    if now_s >= expires_s + issuer.leeway_s:
        raise RefusedTokenError("expired (claim exp)")
    for name in ("nbf", "iat"):
        begins_s = _time(claims, name)
        if begins_s is not None and begins_s > now_s + issuer.leeway_s:
            raise RefusedTokenError(f"not valid yet (claim {name}); compare the clocks")
    found = claims.get(issuer.id_claim)
    if client_id is not None:
        found = _checked_id(found, issuer.id_claim)
        if client_id not in ("", found):
            raise RefusedTokenError(f"the claim {issuer.id_claim} is not the id of the sign-on")
    return Proof(
        client_id=found if isinstance(found, str) else "",
        issuer=issuer.issuer,
        key=key,
        expires_ms=int((expires_s + issuer.leeway_s) * 1000),
        rights=_rights(claims, issuer.rights_claim),
        role=_role(claims, issuer.role_claim),
    )


def _time(claims: dict[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    # A bool is an int in Python. The comparison is false for infinity and NaN.
    valid = isinstance(value, int | float) and not isinstance(value, bool)
    if not valid or not 0 <= value < _MAX_TIME_S:
        raise RefusedTokenError(f"the claim {name} is not a time in seconds")
    return float(value)


def _checked_id(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise RefusedTokenError(f"the claim {name} is missing or not text")
    try:
        check_id("client", value)
    except StoreError as error:
        raise RefusedTokenError(f"the claim {name}: {error}") from None
    return value


def _rights(claims: dict[str, Any], name: str) -> ClientRights | None:
    if name not in claims:
        return None
    value = claims[name]
    if not isinstance(value, dict) or "ids" in value:
        raise RefusedTokenError(f"the claim {name} is not an object with rights")
    try:
        rights = msgspec.convert({"ids": ("**",), **value}, ClientRights)
        rights.check(name)
    except (msgspec.ValidationError, ConfigError) as error:
        raise RefusedTokenError(f"the claim {name}: {str(error)[:_SHOWN]}") from None
    return rights


def _role(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name, "") if name else ""
    if not isinstance(value, str):
        raise RefusedTokenError(f"the claim {name} is not text")
    return value
