"""The keys of one issuer: read once from a file, or again and again from an address.

An address is read in the background: at the start, every `refresh_s`, and when a token names a key
that is not known, but never again within `retry_s` of the last attempt, so that tokens cannot make
the hub send requests. A sign-on waits for a request that is running, for a bounded time. When the
address cannot be read, the keys stay as they are: tokens that they have signed are accepted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from ..config import ConfigError, Issuer
from ..eager import Background
from .fetch import FetchError, fetch
from .keys import Key, KeyFormatError, read_public_keys, secret_key

__all__ = ["AddressSource", "FileSource", "KeySource", "ReadFile", "make_source"]

ReadFile: TypeAlias = Callable[[str | Path], bytes]
"""Reads a file with a secret, and warns when others can read it."""
_WAIT_S: Final = 3.0
"""How long a sign-on waits for keys: less than the time to sign on."""
_MAX_FILE_BYTES: Final = 262_144
_log = logging.getLogger(__name__)


class KeySource(Protocol):
    """Where the keys of an issuer come from."""

    keys: Sequence[Key]
    """The keys that are known."""

    async def refreshed(self) -> bool:
        """Return whether there may be other keys now; for a token with an unknown key."""

    def start(self) -> None:
        """Begin to read, in the background."""

    async def stop(self) -> None:
        """Stop reading."""


def make_source(issuer: Issuer, key: str, read_secret: ReadFile) -> KeySource:
    """Return the source of an issuer's keys; `key` is its place in the configuration. ConfigError.

    A file is read; an address is not yet.
    """
    if issuer.secret:
        place, path = f"{key}.secret", issuer.secret
    elif "://" in issuer.keys:
        return AddressSource(issuer, _tls(issuer, key))
    else:
        place, path = f"{key}.keys", issuer.keys
    try:
        if issuer.secret:
            return FileSource((secret_key(read_secret(path), issuer.algorithms),))
        with Path(path).open("rb") as file:
            return FileSource(read_public_keys(file.read(_MAX_FILE_BYTES), issuer.algorithms))
    except OSError as error:
        raise ConfigError(f"{place}: {path}: {error.strerror}") from error
    except KeyFormatError as error:
        raise ConfigError(f"{place}: {path}: {error}") from error


def _tls(issuer: Issuer, key: str) -> ssl.SSLContext | None:
    if not issuer.keys.startswith("https:"):
        return None
    try:
        return ssl.create_default_context(cafile=issuer.ca or None)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or "cannot be used"
        raise ConfigError(f"{key}.ca: {issuer.ca}: {why}; expected a PEM file") from error


class FileSource:
    """Keys of a file. SIGHUP reads it again."""

    def __init__(self, keys: Sequence[Key]):
        self.keys = keys

    async def refreshed(self) -> bool:
        """Return False: there are no others."""
        return False

    def start(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""


class AddressSource:
    """Keys at an address."""

    def __init__(
        self,
        issuer: Issuer,
        tls: ssl.SSLContext | None,
        *,
        fetch: Callable[[str, ssl.SSLContext | None], Coroutine[Any, Any, bytes]] = fetch,
    ):
        self._issuer = issuer
        self._tls = tls
        self._fetch = fetch
        self.keys: Sequence[Key] = ()
        self.attempts = 0
        """How often the address was read, or could not be."""
        self._running: asyncio.Future[None] | None = None
        """Done at the end of the request that is running."""
        self._wanted = asyncio.Event()
        self._next = 0.0
        """When it may be read again, by the loop's clock."""
        self._background: Background | None = None

    def start(self) -> None:
        """Begin to read, in the background."""
        self._background = Background(asyncio.get_running_loop())
        self._background.start(self._run())

    async def stop(self) -> None:
        """Stop reading."""
        if self._background is not None:
            await self._background.stop()

    async def refreshed(self) -> bool:
        """Wait for a request, for a while; return whether one has ended."""
        if self._running is None:
            if asyncio.get_running_loop().time() < self._next:
                return False
            self._wanted.set()
            await asyncio.sleep(0)  # the task in the background begins
        running = self._running
        if running is None:
            return False
        # `wait` and not `wait_for`: the end of one sign-on must not end the request of all.
        done, _ = await asyncio.wait([running], timeout=_WAIT_S)
        return bool(done)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wanted.clear()
            self._running = loop.create_future()
            self._next = loop.time() + self._issuer.retry_s
            try:
                read = await self._read()
            finally:
                self._running.set_result(None)
                self._running = None
            pause_s = self._issuer.refresh_s if read else self._issuer.retry_s
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()

    async def _read(self) -> bool:
        """Read the keys; return whether they could be read."""
        self.attempts += 1
        name = self._issuer.issuer
        try:
            data = await self._fetch(self._issuer.keys, self._tls)
            keys = read_public_keys(data, self._issuer.algorithms)
        except (FetchError, KeyFormatError) as error:
            _log.warning(
                "issuer %s: cannot read its keys: %s; the %d known ones stay",
                name,
                error,
                len(self.keys),
            )
            return False
        except Exception:  # whatever an address answers, it is read again
            _log.exception("issuer %s: cannot read its keys", name)
            return False
        if {key.thumbprint for key in keys} != {key.thumbprint for key in self.keys}:
            _log.info("issuer %s: %d keys", name, len(keys))
        self.keys = keys
        return True
