"""The description of each HTTP endpoint: purpose, parameters, answer, errors.

One entry per route of `app.py`; a test fails when one is missing, and checks each against a live
hub. `app.py` generates the OpenAPI description from them, `tools/pages/http.py` the reference
page.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..roles import Role
from . import schemas
from .notifications import PublishRequest, RedriveRequest
from .top import Top

__all__ = ["ENDPOINTS", "Endpoint", "Query"]


class Query(NamedTuple):
    """A query parameter."""

    name: str
    meaning: str
    default: int | None = None
    """Default of an integer; None for text, which has none."""
    most: int = 0
    """Maximum of an integer."""


class Endpoint(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    summary: str
    """One line."""
    text: str = ""
    """Details."""
    answer: Any = None
    """Type of the JSON answer; None for other media."""
    media: str = "application/json"
    """Media type of the answer."""
    queries: tuple[Query, ...] = ()
    places: tuple[tuple[str, str], ...] = ()
    """Path parameters and their meaning."""
    body: Any = None
    """Type of the JSON body."""
    refusals: tuple[str, ...] = ()
    """Codes of `wirelake.hub.errors`, in addition to those of every endpoint."""
    role: Role = Role.OPERATOR
    """The role that a token needs."""

    @property
    def open(self) -> bool:
        """Whether it needs no token on a loopback address."""
        return self.role is Role.METRICS


_LIMIT: Final = Query("limit", "Maximum number of rows.", 100, 1_000)
_OFFSET: Final = Query("offset", "Number of rows to skip.", 0, 10_000_000)
_STORING: Final = ("too_busy", "storage_full", "storage_failed", "closing")

ENDPOINTS: Final = (
    Endpoint(
        "GET", "/healthz", "Liveness of the hub.",
        "Any response means that the hub is alive.",
        schemas.Health, role=Role.METRICS,
    ),
    Endpoint(
        "GET", "/readyz", "Readiness of the hub.",
        "An error until all listeners are open, while the hub shuts down, and while the store "
        "cannot be read or written.",
        schemas.Health, refusals=("closing", "storage_failed"), role=Role.METRICS,
    ),
    Endpoint(
        "GET", "/varz", "All counters, and the addresses of the listeners.", "",
        schemas.Varz, role=Role.METRICS,
    ),
    Endpoint(
        "GET", "/metrics", "The counters as Prometheus metrics.",
        "In the Prometheus text format; the reference page on metrics lists every series.",
        media="text/plain", role=Role.METRICS,
    ),
    Endpoint(
        "GET", "/v1/openapi.json", "This description in OpenAPI 3.1.", "",
        dict[str, Any], role=Role.METRICS,
    ),
    Endpoint(
        "GET", "/connz", "Open connections, and the last closed ones.", "",
        schemas.Connz,
        queries=(
            _LIMIT, _OFFSET,
            Query("protocol", "Only connections of this protocol."),
            Query("client", "Only connections of this client."),
        ),
        refusals=("bad_arguments",),
        role=Role.VIEWER,
    ),
    Endpoint(
        "GET", "/topicz", "Topics with subscribers.", "",
        schemas.Topicz, queries=(_LIMIT, _OFFSET), refusals=("bad_arguments",),
        role=Role.VIEWER,
    ),
    Endpoint(
        "GET", "/clientz", "Clients with their topics and the size of their backlog.", "",
        schemas.Clientz, queries=(_LIMIT, _OFFSET), refusals=("bad_arguments",),
        role=Role.VIEWER,
    ),
    Endpoint(
        "GET", "/v1/services", "Services, and the processes that offer some.",
        "Where each service runs and how fast it is. A client lists those that it may call with "
        "the call `hub/services`.",
        schemas.Services, queries=(_LIMIT, _OFFSET), refusals=("bad_arguments",),
        role=Role.VIEWER,
    ),
    Endpoint(
        "GET", "/v1/top", "The current state, for `wirelake top`.",
        "Counters, latency histograms of calls, the busiest topics, and connections closed for an "
        "unusual reason. Two requests give the rates.",
        Top, queries=(Query("limit", "Maximum number of topics.", 50, 1_000),),
        refusals=("bad_arguments",),
        role=Role.VIEWER,
    ),
    Endpoint(
        "POST", "/v1/publish", "Publish to a topic or to one client.",
        "Answered when it is on disk. Requires either `topic` or `client`, and either `content` or "
        "`content_base64`.",
        schemas.PublishAnswer, body=PublishRequest,
        refusals=("bad_arguments", "not_found", "too_large", *_STORING),
    ),
    Endpoint(
        "GET", "/v1/inbox/{client}", "What a client has not acknowledged.", "",
        schemas.Inbox, queries=(_LIMIT,), places=(("client", "A client id."),),
        refusals=("bad_arguments", "not_found", "storage_failed"),
        role=Role.ANALYST,
    ),
    Endpoint(
        "GET", "/v1/dead", "Dead letters.",
        "Notifications that were not acknowledged in time, and why.",
        schemas.Dead, queries=(_LIMIT, Query("client", "Only dead letters of this client.")),
        refusals=("bad_arguments", "not_found", "storage_failed"),
        role=Role.ANALYST,
    ),
    Endpoint(
        "POST", "/v1/dead/redrive", "Put dead letters back into their inboxes.",
        "Requires either `ids` or `client`; at most a thousand dead letters. Each gets a new id.",
        schemas.Redriven, body=RedriveRequest,
        refusals=("bad_arguments", "not_found", "too_large", *_STORING),
    ),
    Endpoint(
        "GET", "/v1/tables/{table}", "The final rows of a live table.",
        "Available with `record.tables = true` in the configuration. The columns are those of the "
        "table with the same name.",
        schemas.Rows, queries=(Query("limit", "Maximum number of rows.", 100, 10_000),),
        places=(("table", "`calls`, `deliveries`, `connections` or `tunnels`."),),
        refusals=("bad_arguments", "not_found"),
        role=Role.ANALYST,
    ),
    Endpoint(
        "GET", "/v1/tail", "Messages as they cross the hub.",
        "An endless stream of server-sent events: `message` has a row of `messages` as JSON, "
        "tokens and keys masked; `dropped` has `{\"count\": n}` when the reader was too slow for n "
        "messages. With `bytes=1` a message has its frame as `frame_hex`, secrets replaced by "
        "zeros, and the `dialect` it is encoded in.",
        media="text/event-stream",
        queries=(
            Query("filter", "Only messages that match this filter expression."),
            Query("protocol", "Only messages of this protocol."),
            Query("bytes", "1 to include the bytes.", 0, 1),
        ),
        refusals=("bad_arguments", "too_busy"),
        role=Role.ANALYST,
    ),
)  # fmt: skip
"""Every endpoint, in the order of the reference page."""
