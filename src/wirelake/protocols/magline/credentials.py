"""Which keys the two ends of magline know each other by (§4.2), and how they are found (KEY_ID).

A client is configured with one mode and never uses a weaker one. A server may hold several pinned
and shared keys at once, so that they can be rotated: the new one is added, clients move over, the
old one is removed.

    ClientKey(pinned=public)           the server owns the private half
    ClientKey(psk=key)                 both hold the same 32 random bytes
    ClientKey(allow_anonymous=True)    no key: stops listeners, not a man in the middle
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from wirelake.wire.errors import DecodeError, EncodeError

from .handshake import KEY_SIZE, Mode, psk_key_id, server_key_id, x25519_public

__all__ = ["Chosen", "ClientKey", "ServerKeys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """How a client knows its server; exactly one of the three."""

    pinned: bytes | None = None
    """The server's static X25519 key, its public half."""
    psk: bytes | None = field(default=None, repr=False)
    """A shared key of 32 random bytes; a passphrase could be guessed from an ACK."""
    allow_anonymous: bool = False
    """Accept any server. Only passive listeners are kept out."""

    def __post_init__(self) -> None:
        given = (self.pinned is not None) + (self.psk is not None) + self.allow_anonymous
        if given != 1:
            detail = "wanted one of pinned=, psk= and allow_anonymous=True"
            raise EncodeError("bad_config", "key", detail=detail)
        for name, key in (("pinned", self.pinned), ("psk", self.psk)):
            if key is not None and len(key) != KEY_SIZE:
                raise EncodeError("bad_config", name, detail=f"wanted exactly {KEY_SIZE} bytes")

    @property
    def mode(self) -> Mode:
        """The mode of a first connection."""
        if self.pinned is not None:
            return Mode.PINNED
        return Mode.PSK if self.psk is not None else Mode.ANONYMOUS

    @property
    def key_id(self) -> bytes | None:
        """KEY_ID of a SYN; None in anonymous mode."""
        if self.pinned is not None:
            return server_key_id(self.pinned)
        return psk_key_id(self.psk) if self.psk is not None else None


class Chosen(NamedTuple):
    """The key that a SYN names, and the mode that goes with it."""

    mode: Mode
    static_private: bytes | None = None
    psk: bytes | None = None


class ServerKeys:
    """All the keys that a server accepts clients by; one object serves all its connections."""

    __slots__ = ("_by_id",)

    def __init__(
        self,
        *,
        static: Iterable[bytes] = (),
        psks: Iterable[bytes] = (),
        allow_anonymous: bool = False,
    ):
        self._by_id: dict[bytes | None, Chosen] = {}
        for private in static:
            found = Chosen(Mode.PINNED, static_private=private)
            self._by_id[server_key_id(x25519_public(private))] = found
        for psk in psks:
            self._by_id[psk_key_id(psk)] = Chosen(Mode.PSK, psk=psk)
        if allow_anonymous:
            self._by_id[None] = Chosen(Mode.ANONYMOUS)
        if not self._by_id:
            detail = "wanted a static key, a psk, or allow_anonymous=True"
            raise EncodeError("bad_config", "keys", detail=detail)

    def find(self, key_id: bytes | None) -> Chosen:
        """Return the key of a SYN, by its KEY_ID; without one the mode is anonymous."""
        chosen = self._by_id.get(key_id)
        if chosen is None:
            raise DecodeError("handshake_failed", "frame.key_id")
        return chosen
