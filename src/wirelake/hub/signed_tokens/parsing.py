"""Parses a token in compact form: header, claims, signature (RFC 7515 section 7.1).

The token is parsed once, and strictly: what is checked here is what is used later. Parsers that
differ in what they do with a repeated name, or with characters outside of the alphabet, are how one
part of a system comes to believe something else than another.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final, NamedTuple, NoReturn

from .errors import RefusedTokenError

__all__ = ["MAX_TOKEN_BYTES", "ParsedToken", "parse_json", "parse_token"]

MAX_TOKEN_BYTES: Final = 3_072
"""Maximum size of a token. A sign-on has to fit 4,096 bytes, which is what the hub keeps of a
connection that has not signed on (`net.connection`), with an id of 256 bytes and the frame."""
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")


class ParsedToken(NamedTuple):
    """The parts of a token; nothing of them is verified."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    """What the signature is of."""
    signature: bytes


def parse_token(token: str) -> ParsedToken:
    """Return the parts of a token; RefusedTokenError."""
    if len(token) > MAX_TOKEN_BYTES:
        raise RefusedTokenError(f"longer than {MAX_TOKEN_BYTES} bytes; leave out claims")
    parts = token.split(".")
    if len(parts) != 3:
        raise RefusedTokenError("not a signed token: expected three parts")
    header, claims, signature = map(_decoded, parts)
    signed = token.rpartition(".")[0].encode("ascii")
    return ParsedToken(_object(header), _object(claims), signed, signature)


def parse_json(data: bytes) -> Any:
    """Parse JSON in UTF-8 without repeated names, NaN or lone surrogates; ValueError."""
    # RecursionError: a few kilobytes of brackets nest deeper than the parser can.
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_not_a_number
        )
        # Escapes of lone surrogates are valid JSON, and text that nobody can encode.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
        return found
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decoded(part: str) -> bytes:
    # The decoder of Python skips characters that are not in the alphabet.
    if _BASE64URL.fullmatch(part) is None or len(part) % 4 == 1:
        raise RefusedTokenError("a part is not base64url")
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = parse_json(data)
    except ValueError:
        raise RefusedTokenError("a part is not valid JSON, or repeats a name") from None
    if not isinstance(found, dict):
        raise RefusedTokenError("a part is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is repeated")
    return found


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
