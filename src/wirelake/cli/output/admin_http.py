"""Asks the HTTP side of a hub as its administrator: pages as JSON, and streams of events."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from ..commands.client_run import tls_context
from ..errors import (
    BAD_DATA,
    BAD_USAGE,
    CommandError,
)

__all__ = ["ADMIN_URL", "AdminHub", "GoneError", "RefusedError", "admin_hub", "admin_options"]

ADMIN_URL: Final = "http://127.0.0.1:9680"
"""Where a hub has its HTTP side unless its configuration says otherwise."""
_TOKEN_VARIABLE: Final = "WIRELAKE_ADMIN_TOKEN"
_TOKEN_FILE: Final = "admin.token"
_USUAL_DATA: Final = "hub-data"
"""Where `wirelake hub` keeps its data unless told otherwise."""
_WAIT_S: Final = 10.0
_SILENCE_S: Final = 45.0
"""How long a stream may be silent: the hub says something every 15 s."""
_MOST_BYTES: Final = 64 << 20
"""Of one answer, and of one line of a stream."""

Command = TypeVar("Command", bound=Callable[..., Any])


class GoneError(CommandError):
    """Nobody answers there, or not any more."""


class RefusedError(CommandError):
    """The hub answers that it will not do this."""

    def __init__(self, message: str, status: int, said: str):
        super().__init__(message, BAD_DATA)
        self.status = status
        """The status of HTTP."""
        self.said = said
        """What the hub said."""


class Sent(NamedTuple):
    """An event of a stream."""

    name: str
    data: Any


def admin_options(command: Command) -> Command:
    """Adds the argument and options that say which hub, and how to be its administrator."""
    for option in reversed(
        (
            click.argument("url", default=ADMIN_URL, metavar="[URL]"),
            click.option(
                "--data",
                metavar="DIR",
                help=f"The hub's data directory, for its {_TOKEN_FILE}.  [default: {_USUAL_DATA}]",
            ),
            click.option(
                "--token-file",
                metavar="FILE",
                help=f"A file with the admin token; or have it in {_TOKEN_VARIABLE}.",
            ),
            click.option("--ca", metavar="FILE", help="Whose certificates to trust, with https."),
        )
    ):
        command = option(command)
    return command


def admin_hub(url: str, data: str | None, token_file: str | None, ca: str | None) -> AdminHub:
    """The hub that the options describe."""
    if data is not None and token_file is not None:
        raise click.UsageError("give --data or --token-file, not both")
    return AdminHub(url, _token(data, token_file), ca)


def _token(data: str | None, token_file: str | None) -> str:
    if token_file is not None:
        return _token_in(Path(token_file))
    if data is not None:
        return _token_in(Path(data) / _TOKEN_FILE)
    found = os.environ.get(_TOKEN_VARIABLE, "").strip()
    if found:
        return found
    usual = Path(_USUAL_DATA) / _TOKEN_FILE
    if usual.exists():
        return _token_in(usual)
    raise click.UsageError(
        f"the hub's admin token is missing: give --data DIR, where the hub keeps its data, or "
        f"--token-file, or set {_TOKEN_VARIABLE}"
    )


def _token_in(path: Path) -> str:
    try:
        found = path.read_text(encoding="utf-8", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CommandError(
            f"{path}: there is no such file; a hub makes {_TOKEN_FILE} in its data directory when "
            f"it starts",
            BAD_USAGE,
        ) from error
    if not found or not found.isascii() or not found.isprintable():
        raise CommandError(f"{path}: this is no token", BAD_USAGE)
    return found


class AdminHub:
    """The HTTP side of a hub. No proxy is asked: the token is for the hub alone."""

    def __init__(self, url: str, token: str, ca: str | None = None):
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise click.UsageError(f"{url}: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.UsageError(
                f"{url}: wanted the hub's admin address, as {ADMIN_URL}, or https://"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        """The address, for people."""
        self._host, self._port = parts.hostname, port
        self._path = parts.path.rstrip("/")
        self._token = token
        self._is_https = parts.scheme == "https"
        self._tls = None if ca is None else tls_context(ca)

    def json(self, path: str, **query: Any) -> Any:
        """What a page says."""
        line = self._line(_WAIT_S)
        try:
            with self._ask(line, path, query) as answer:
                return json.loads(answer.read(_MOST_BYTES))
        except (OSError, http.client.HTTPException) as error:  # TLS has errors that are values, too
            raise self._gone(error) from error
        except ValueError as error:
            raise self._no_hub() from error
        finally:
            line.close()

    def events(self, path: str, **query: Any) -> Iterator[Sent]:
        """The events of a stream, until the hub ends it; `GoneError` when the line breaks."""
        line = self._line(_SILENCE_S)
        try:
            with self._ask(line, path, query) as answer:
                if not (answer.getheader("content-type") or "").startswith("text/event-stream"):
                    raise self._no_hub()
                yield from _events(answer)
        except (OSError, http.client.HTTPException) as error:  # TLS has errors that are values, too
            raise self._gone(error) from error
        except ValueError as error:
            raise self._no_hub() from error
        finally:
            line.close()

    # -- one request -------------------------------------------------------------------------

    def _line(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._is_https:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def _ask(
        self, line: http.client.HTTPConnection, path: str, query: dict[str, Any]
    ) -> http.client.HTTPResponse:
        asked = {name: value for name, value in query.items() if value is not None}
        words = f"?{urllib.parse.urlencode(asked)}" if asked else ""
        line.request(
            "GET", f"{self._path}{path}{words}", headers={"Authorization": f"Bearer {self._token}"}
        )
        answer = line.getresponse()
        if answer.status == http.client.OK:
            return answer
        with answer:
            raise self._refused(path, answer.status, _said(answer))

    def _refused(self, path: str, status: int, said: str | None) -> CommandError:
        if said is None:
            return self._no_hub()
        if status == http.client.UNAUTHORIZED:
            text = (
                f"{self.url}: the hub does not take this token; the right one is in the file "
                f"{_TOKEN_FILE} of its data directory: give --data or --token-file"
            )
        elif status == http.client.NOT_FOUND:
            text = (
                f"{self.url}: this hub has no {path}; it is older than this command: update it, "
                f"or use the wirelake that it was started with"
            )
        else:
            text = f"{self.url}: {said}"
        return RefusedError(text, status, said)

    def _no_hub(self) -> CommandError:
        return CommandError(
            f"{self.url}: what answers there is no hub; wanted the address that the hub prints as "
            f"`listening admin`",
            BAD_DATA,
        )

    def _gone(self, error: Exception) -> GoneError:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{self.url}: its certificate is not trusted ({error.verify_message}): give --ca"
            return GoneError(text, BAD_DATA)
        return GoneError(
            f"{self.url}: no hub answers ({why}); is it running? `wirelake hub` starts one, and "
            f"prints where it listens",
            BAD_DATA,
        )


def _said(answer: http.client.HTTPResponse) -> str | None:
    """The message of a refusal; None when it is none of a hub."""
    try:
        found = json.loads(answer.read(_MOST_BYTES))
    except ValueError:
        return None
    message = found.get("message") if isinstance(found, dict) and "error" in found else None
    return message if isinstance(message, str) else None


def _events(answer: http.client.HTTPResponse) -> Iterator[Sent]:
    name = data = ""
    while line := answer.readline(_MOST_BYTES):
        field, _, value = line.decode().rstrip("\r\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data += value
        elif not field and data:
            yield Sent(name, json.loads(data))
            name = data = ""
