"""How commands connect to a server: as a client over one of the protocols, or to the admin API.

- `connection_options`, `server`, `run_client`: for `call`, `ping`, `publish`, `subscribe`.
- `admin_options`, `admin_hub`, `AdminHub`: JSON resources and event streams of a hub over HTTP, for
  `top` and `tail`.

The admin API is read with `http.client` rather than a library: `top` and `tail` start in a tenth of
a second, and no proxy from the environment ever sees the admin token.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import select
import socket
import ssl
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from wirelake.protocols.hub_calls import ADMIN_PORT

from .contexts import current_context, load_context
from .errors import BAD_DATA, BAD_USAGE, CommandError
from .options import name_value_pairs, typed_value

if TYPE_CHECKING:
    from wirelake.client import CallFailed, Client
    from wirelake.client.settings import Where
    from wirelake.protocols.binding import Binding

__all__ = [
    "ADMIN_URL",
    "AdminHub",
    "HubUnavailableError",
    "RequestRefusedError",
    "admin_hub",
    "admin_options",
    "client_errors",
    "client_options",
    "connected",
    "connection_options",
    "message_object",
    "run_client",
    "server",
    "server_with_calls",
    "tls_context",
    "token_in",
]

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")


# -- clients -----------------------------------------------------------------------------------


_CONTEXT_OPTION: Final = click.option(
    "--context", metavar="NAME", help="Saved context to use (wirelake context)."
)


def connection_options(command: Command) -> Command:
    """Add the options that say who connects and how to authenticate the server."""
    for option in reversed(
        (
            _CONTEXT_OPTION,
            click.option("--id", "client_id", metavar="ID", help="Client id to sign on with."),
            click.option(
                "--token",
                envvar="WIRELAKE_TOKEN",
                metavar="TEXT",
                help="Token of the client. Prefer --token-file or the variable WIRELAKE_TOKEN:"
                " other users can see command lines.",
            ),
            click.option("--token-file", metavar="FILE", help="File with the token of the client."),
            click.option("--ca", metavar="FILE", help="Trusted CA certificates (PEM), for TLS."),
            click.option("--key", metavar="HEX", help="Public key of the server, or a file."),
            click.option("--psk", metavar="FILE", help="File with a pre-shared key."),
            click.option("--anonymous", is_flag=True, help="Do not authenticate the server."),
            click.option("--plaintext", is_flag=True, help="Accept unsealed notifications."),
            click.option("--dialect", metavar="NAME", help="Dialect of the protocol."),
            click.option(
                "-o",
                "--option",
                "protocol_options",
                multiple=True,
                metavar="NAME=VALUE",
                help="Another option of the protocol's client, as JSON or text, such as"
                " verify=true; repeat for more.",
            ),
            click.option(
                "--timeout",
                "timeout_s",
                type=click.FloatRange(min=0, min_open=True),
                default=10.0,
                show_default=True,
                metavar="SECONDS",
                help="Timeout for connecting and for each response.",
            ),
        )
    ):
        command = option(command)
    return command


def server(word: str | None, connection: dict[str, Any]) -> str:
    """Return the URL of a server: a word that is one, or else that of a context with the word as
    its target. `connection` has the options, which a context completes."""
    name = connection.pop("context")
    if word is not None and "://" in word:
        if name is not None:
            raise click.UsageError("--context conflicts with a URL")
        return word
    context = current_context() if name is None else load_context(name)
    if context.url is None:
        raise click.UsageError(
            ("missing URL" if word is None else f"{word!r} is not a URL")
            + "; expected PROTOCOL://HOST:PORT, or a server saved by `wirelake context add`"
        )
    # Id and token belong together: another id on the command line needs its own token.
    given = asdict(context)
    if connection["client_id"] is not None:
        del given["client_id"], given["token"]
    elif context.client_id is not None and connection["token_file"] is None:
        connection["token"] = None  # the variable may be meant for another client
    for option, value in given.items():
        if option in connection and connection[option] in (None, False):
            connection[option] = value
    return f"{context.url.rstrip('/')}/{word}" if word else context.url


def connected(url: str, **options: Any) -> Client:
    """Return the client that the options describe; `async with` connects it."""
    from wirelake.client import connect

    return connect(url, **client_options(**options))


def client_options(
    *,
    client_id: str | None,
    token: str | None,
    token_file: str | None,
    ca: str | None,
    key: str | None,
    psk: str | None,
    anonymous: bool,
    plaintext: bool,
    dialect: str | None,
    protocol_options: tuple[str, ...],
    timeout_s: float,
    **more: Any,
) -> dict[str, Any]:
    """Return the options of a client for those of the command line."""
    pairs = name_value_pairs("--option", protocol_options)
    extra = {name: typed_value(text) for name, text in pairs.items()}
    for name in extra:
        if name in _OPTIONS or name in more:
            raise click.UsageError(f"--option {name}: use {_OPTIONS.get(name, name)}")

    # A token in the environment may be meant for another command: without --id it is ignored.
    if token_file is not None:
        if token is not None and not _from_environment("token"):
            raise click.UsageError("--token conflicts with --token-file")
        token = token_in(token_file)
    if client_id is None and token is not None and not _from_environment("token"):
        raise click.UsageError("--token requires --id")
    if client_id is not None and token is None:
        raise click.UsageError(
            "--id requires a token: give --token-file FILE or set WIRELAKE_TOKEN"
        )
    return {
        "id": client_id,
        "token": token or "",
        "tls": None if ca is None else tls_context(ca),
        "pinned": None if key is None else _key_text(key),
        "psk": None if psk is None else _text_in("--psk", psk),
        "anonymous": anonymous,
        "allow_plaintext": True if plaintext else None,
        "dialect": dialect,
        "timeout_s": timeout_s,
        "connect_timeout_s": timeout_s,
        **extra,
        **more,
    }


def server_with_calls(url: str, needs: str) -> tuple[tuple[Where, ...], Binding]:
    """Return the servers of a URL and their binding; Unsupported if the protocol has no calls.

    Publishing is a call of the hub, too. Checked before anything is dialled: a server that is down
    must not hide the mistake.
    """
    from wirelake.client import Unsupported
    from wirelake.client.settings import parse_addresses
    from wirelake.protocols import registry

    addresses = parse_addresses(url)
    protocol = addresses[0].protocol
    binding = registry.binding(protocol)
    if binding.addressing == "none":
        raise Unsupported(f"{protocol} has no {needs}")
    return addresses, binding


def message_object(client: Client, message: Any) -> dict[str, Any]:
    """Return a message that a client received, in the form of `wirelake decode --json`."""
    from wirelake.protocols import registry
    from wirelake.records.exact_json import exact
    from wirelake.wire.declare import build
    from wirelake.wire.views.json import to_json

    settings = client.settings
    dialects = registry.find(settings.where.protocol).dialects
    dialect = settings.dialect if settings.dialect in dialects else dialects[0]
    shown: dict[str, Any] = exact(to_json(build(type(message), dialect), message))
    return shown


def _from_environment(option: str) -> bool:
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source is click.core.ParameterSource.ENVIRONMENT


def token_in(path: str) -> str:
    """Return the token in a file."""
    token = _text_in("token file", path).strip()
    if not token or not token.isascii() or not token.isprintable():
        raise CommandError(f"{path}: not a token; expected one line of printable ASCII", BAD_USAGE)
    return token


def tls_context(ca: str) -> ssl.SSLContext:
    """Return a TLS context that trusts only the CA certificates in a file."""
    _text_in("--ca", ca)  # OpenSSL's error names no file
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise CommandError(f"--ca: {ca}: not a PEM certificate", BAD_USAGE) from error


def _key_text(key: str) -> str:
    """Return the key, or the contents of the file with that name."""
    if re.fullmatch(r"[0-9A-Fa-f]{64}", key.strip()):
        return key
    return _text_in("--key", key, ", or 64 hexadecimal digits")


def _text_in(option: str, path: str, otherwise: str = "") -> str:
    """Return the text of a file that an option names."""
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise CommandError(
            f"{option}: {path}: {why}; expected a readable file{otherwise}", BAD_USAGE
        ) from error


_OPTIONS: Final = {
    "id": "--id",
    "token": "--token-file",
    "tls": "--ca",
    "pinned": "--key",
    "psk": "--psk",
    "anonymous": "--anonymous",
    "allow_plaintext": "--plaintext",
    "dialect": "--dialect",
    "timeout_s": "--timeout",
    "connect_timeout_s": "--timeout",
}
"""Options of the command line, by their names in `wirelake.client`."""
_SILENCE_S: Final = 1.0
"""How long a server may be silent before the command finds out what it speaks: long enough for a
round trip on any network, and short for a person."""


@contextmanager
def client_errors() -> Iterator[None]:
    """Turn the errors of a client into `CommandError`."""
    from wirelake.client import BadCall, ClientError

    try:
        yield
    except ClientError as error:
        code = BAD_USAGE if isinstance(error, BadCall) else BAD_DATA
        raise CommandError(error.named(_OPTIONS, "-o "), code) from error


def run_client(
    url: str, connection: dict[str, Any], work: Callable[[Client], Awaitable[T]], **more: Any
) -> T:
    """Connect as the options say and run a coroutine with the client.

    Its errors become `CommandError`. If the server is silent or closes the connection, the error
    says what the server speaks instead, if that can be found out.
    """
    from wirelake.client import CallFailed

    with client_errors():
        client = connected(url, **connection, **more)
        try:
            return asyncio.run(_contacted(client, work))
        except CallFailed as error:
            if connection["client_id"] is None and _is_auth_required(client, error):
                raise CommandError(f"{error}; give --id and --token-file") from error
            raise


def _is_auth_required(client: Client, error: CallFailed) -> bool:
    """Return whether a hub refused a call because the client has not signed on."""
    from wirelake.protocols import registry

    errors = registry.binding(client.settings.where.protocol).errors
    # ESNP has no codes, only the text.
    return error.code == errors.get("auth_required", "") or error.text == "auth required"


async def _contacted(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    from wirelake.client import ConnectionLost, Timeout
    from wirelake.client.dial import wrong_server
    from wirelake.client.errors import Unreachable, WrongServer

    async def run() -> T:
        async with client:
            return await work(client)

    task = asyncio.ensure_future(run())
    try:
        await asyncio.wait({task}, timeout=_SILENCE_S)
        if not task.done() and client.silent and len(client.settings.addresses) == 1:
            wrong = await wrong_server(client.address)
            if wrong is not None and client.silent and not task.done():
                raise wrong
        return await task
    except Unreachable:
        raise
    except WrongServer as error:
        # That a TLS handshake has failed does not tell what the server speaks.
        where = client.address
        found = await wrong_server(where, guess=True) if where.tls and task.done() else None
        raise found or error from error.__cause__
    except (ConnectionLost, Timeout) as error:
        where = client.address
        wrong = await wrong_server(where, guess=True) if client.connects <= 1 else None
        if wrong is not None:
            raise wrong from error
        late = "; --timeout waits longer" if isinstance(error, Timeout) else ""
        if where.place in str(error):
            raise
        raise type(error)(f"{where.place}: {error}{late}") from error
    finally:
        task.cancel()
        await asyncio.wait({task})


# -- the admin API -----------------------------------------------------------------------------

ADMIN_URL: Final = f"http://127.0.0.1:{ADMIN_PORT}"
"""Default address of the admin API."""
_TOKEN_VARIABLE: Final = "WIRELAKE_ADMIN_TOKEN"
_TOKEN_FILE: Final = "admin.token"
_DEFAULT_DATA: Final = "hub-data"
"""Default data directory of `wirelake hub`."""
_TIMEOUT_S: Final = 10.0
_STREAM_TIMEOUT_S: Final = 45.0
"""Longest silence of a stream: three times the hub's keep-alive interval of 15 s."""
_MAX_BYTES: Final = 64 << 20
"""Largest response, and longest line of a stream."""


class HubUnavailableError(CommandError):
    """No hub answers at the address, or the connection broke."""


class RequestRefusedError(CommandError):
    """The hub refused a request."""

    def __init__(self, message: str, status: int, reason: str, *, is_get: bool = True):
        usage = status == http.client.BAD_REQUEST and is_get
        super().__init__(message, BAD_USAGE if usage else BAD_DATA)
        self.status = status
        """HTTP status."""
        self.reason = reason
        """The hub's message."""


class Event(NamedTuple):
    """An event of a stream."""

    name: str
    data: Any


def admin_options(command: Command) -> Command:
    """Add the argument and options that name a hub and its admin token."""
    for option in reversed(
        (
            click.argument("url", required=False, metavar="[URL]"),
            _CONTEXT_OPTION,
            click.option(
                "--data",
                metavar="DIR",
                help=f"Data directory of the hub, with {_TOKEN_FILE}.  [default: {_DEFAULT_DATA}]",
            ),
            click.option(
                "--token-file",
                metavar="FILE",
                help=f"File with the admin token; alternative: {_TOKEN_VARIABLE}.",
            ),
            click.option("--ca", metavar="FILE", help="Trusted CA certificates (PEM), for https."),
        )
    ):
        command = option(command)
    return command


def admin_hub(
    url: str | None,
    *,
    context: str | None,
    data: str | None = None,
    token_file: str | None = None,
    ca: str | None = None,
) -> AdminHub:
    """Return the hub that the options describe, or that of a context."""
    if data is not None and token_file is not None:
        raise click.UsageError("--data conflicts with --token-file")
    if context is not None and (url, data, token_file) != (None, None, None):
        raise click.UsageError("--context conflicts with a URL, --data and --token-file")
    if (url, data, token_file) == (None, None, None):
        saved = current_context() if context is None else load_context(context)
        if saved.admin is not None:
            token = saved.admin_token or _token(None, None)
            return AdminHub(saved.admin, token, ca or saved.ca)
        if context is not None:
            raise click.UsageError(f"context {context!r} has no --admin address")
    return AdminHub(url or ADMIN_URL, _token(data, token_file), ca)


def _token(data: str | None, token_file: str | None) -> str:
    if token_file is not None:
        return token_in(token_file)
    if data is not None:
        return _admin_token_in(Path(data) / _TOKEN_FILE)
    token = os.environ.get(_TOKEN_VARIABLE, "").strip()
    if token:
        return token
    default = Path(_DEFAULT_DATA) / _TOKEN_FILE
    if default.exists():
        return _admin_token_in(default)
    raise click.UsageError(
        f"missing admin token: give --data DIR (the hub's data directory) or --token-file FILE, or "
        f"set {_TOKEN_VARIABLE}"
    )


def _admin_token_in(path: Path) -> str:
    if not path.exists():
        raise CommandError(
            f"{path}: no such file; a hub creates {_TOKEN_FILE} in its data directory when it "
            f"starts",
            BAD_USAGE,
        )
    return token_in(str(path))


class AdminHub:
    """The admin API of one hub."""

    def __init__(
        self,
        url: str,
        token: str,
        ca: str | None = None,
        *,
        token_options: str = "--data or --token-file",
    ):
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise click.UsageError(
                f"{url}: invalid port or address; expected the hub's admin address, such as"
                f" {ADMIN_URL}"
            ) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.UsageError(
                f"invalid URL {url!r}; expected the hub's admin address, such as {ADMIN_URL}"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        """The address, without query."""
        self._host, self._port = parts.hostname, port
        self._path = parts.path.rstrip("/")
        self._token = token
        self._token_options = token_options
        self._is_https = parts.scheme == "https"
        self._tls = None if ca is None else tls_context(ca)

    def json(self, path: str, **query: Any) -> Any:
        """Get a resource as JSON."""
        return self._json(path, query, None, _TIMEOUT_S)

    def post(self, path: str, body: dict[str, Any], timeout_s: float = _TIMEOUT_S) -> Any:
        """Post a request and return the response, both as JSON."""
        return self._json(path, {}, json.dumps(body).encode(), timeout_s)

    def _json(self, path: str, query: dict[str, Any], body: bytes | None, timeout_s: float) -> Any:
        connection = self._connection(timeout_s)
        try:
            with self._request(connection, path, query, body) as response:
                return json.loads(response.read(_MAX_BYTES))
        # Before ValueError: some TLS errors are both.
        except (OSError, http.client.HTTPException) as error:
            raise self._unavailable(error) from error
        except ValueError as error:
            raise self._not_a_hub() from error
        finally:
            connection.close()

    def events(self, path: str, **query: Any) -> Iterator[Event]:
        """Yield the events of a stream until the hub ends it."""
        connection = self._connection(_STREAM_TIMEOUT_S)
        try:
            with self._request(connection, path, query) as response:
                if not (response.getheader("content-type") or "").startswith("text/event-stream"):
                    raise self._not_a_hub()
                yield from _events(response)
        # Before ValueError: some TLS errors are both.
        except (OSError, http.client.HTTPException) as error:
            raise self._unavailable(error) from error
        except ValueError as error:
            raise self._not_a_hub() from error
        finally:
            connection.close()

    # -- one request -------------------------------------------------------------------------

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._is_https:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def _request(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        query: dict[str, Any],
        body: bytes | None = None,
    ) -> http.client.HTTPResponse:
        given = {name: value for name, value in query.items() if value is not None}
        target = f"{self._path}{path}{f'?{urllib.parse.urlencode(given)}' if given else ''}"
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request("GET" if body is None else "POST", target, body, headers)
        if not select.select([connection.sock], [], [], _SILENCE_S)[0]:
            self._check_server()
        response = connection.getresponse()
        if response.status == http.client.OK:
            return response
        with response:
            raise self._refused(path, response.status, _message(response), is_get=body is None)

    def _refused(self, path: str, status: int, reason: str | None, *, is_get: bool) -> CommandError:
        if reason is None:
            return self._not_a_hub()
        if status == http.client.UNAUTHORIZED:
            text = (
                f"{self.url}: invalid admin token; the hub's own is in {_TOKEN_FILE} in its data "
                f"directory: give {self._token_options}"
            )
        elif status == http.client.NOT_FOUND and self._path:
            base = self.url.removesuffix(self._path)
            text = f"{self.url}: no hub at the path {self._path}; use {base}"
        elif status == http.client.NOT_FOUND and is_get:
            text = (
                f"{self.url}: the hub does not support {path}; it is older than this command: "
                f"update the hub, or use the wirelake version that it runs"
            )
        else:
            text = f"{self.url}: {reason}"
        return RequestRefusedError(text, status, reason, is_get=is_get)

    def _not_a_hub(self) -> CommandError:
        return CommandError(
            f"{self.url}: not a hub's admin address; expected the one that the hub prints as "
            f"`listening admin`",
            BAD_DATA,
        )

    def _unavailable(self, error: Exception) -> CommandError:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{self.url}: untrusted certificate ({error.verify_message}): give --ca"
            return HubUnavailableError(text, BAD_DATA)
        # A server that answers with something else than HTTP, or not in TLS.
        if not isinstance(error, ConnectionRefusedError | socket.gaierror):
            try:
                self._check_server()
            except HubUnavailableError as found:
                return found
        return HubUnavailableError(
            f"{self.url}: cannot reach the hub ({why}); is it running? `wirelake hub` starts one "
            f"and prints its addresses",
            BAD_DATA,
        )

    def _check_server(self) -> None:
        """Raise `HubUnavailableError` if the server turns out not to be an admin address."""
        from wirelake.client.dial import Identified, identify

        port = self._port or (443 if self._is_https else 80)
        expected = Identified("http", self._is_https)
        found = asyncio.run(identify(self._host, port, expected=expected))
        if found is None or found == expected:
            return
        if found.protocol == "http":
            place = f"{found.scheme}://{self.url.partition('://')[2]}"
            uses = "uses TLS" if found.tls else "does not use TLS"
            raise HubUnavailableError(f"{self.url}: the hub {uses}; use {place}", BAD_DATA)
        raise HubUnavailableError(
            f"{self.url}: not a hub's admin address: the server speaks {found.protocol}; expected "
            f"the address that the hub prints as `listening admin`",
            BAD_DATA,
        )


def _message(response: http.client.HTTPResponse) -> str | None:
    """Return the message of a hub's error response; None if it is not a hub's."""
    try:
        body = json.loads(response.read(_MAX_BYTES))
    except ValueError:
        return None
    message = body.get("message") if isinstance(body, dict) and "error" in body else None
    return message if isinstance(message, str) else None


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    # Server-sent events: lines of `field: value`, and an empty line after each event. The hub's
    # keep-alive is a comment between two events: an empty field, and no data.
    name = data = ""
    while line := response.readline(_MAX_BYTES):
        field, _, value = line.decode().rstrip("\r\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data += value
        elif not field and data:
            yield Event(name, json.loads(data))
            name = data = ""
