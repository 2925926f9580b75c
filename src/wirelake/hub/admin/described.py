"""What each address of the HTTP side is for, what it takes, gives and refuses.

One entry for each route of `app.py`; a test fails when one is missing, and asks a live hub whether
each is true. `openapi.py` makes the description of them that programs read, `http_pages.py` the
one for people.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from . import shapes
from .inboxes import Redrive
from .publishing import Wanted
from .top import Top

__all__ = ["DESCRIBED", "Described", "Query"]


class Query(NamedTuple):
    """An argument after the question mark."""

    name: str
    meaning: str
    default: int | None = None
    """Of a whole number; None for a text, which has none."""
    most: int = 0
    """Of a whole number."""


class Described(NamedTuple):
    """One address, asked in one way."""

    method: str
    path: str
    summary: str
    """One line."""
    text: str = ""
    """What else there is to say."""
    answer: Any = None
    """The type of the JSON that comes; None where it is something else."""
    media: str = "application/json"
    """What kind of thing comes."""
    queries: tuple[Query, ...] = ()
    places: tuple[tuple[str, str], ...] = ()
    """Names in the path, and what they stand for."""
    body: Any = None
    """The type of the JSON that must be sent."""
    refusals: tuple[str, ...] = ()
    """Codes of `wirelake.hub.errors`, beside those that any page may have."""
    open: bool = False
    """Whether everybody may ask for it on a loopback address."""


_LIMIT: Final = Query("limit", "How many at most.", 100, 1_000)
_OFFSET: Final = Query("offset", "How many to leave out before.", 0, 10_000_000)
_STORING: Final = ("too_busy", "storage_full", "storage_failed", "closing")

DESCRIBED: Final = (
    Described(
        "GET", "/healthz", "Whether the hub is alive.",
        "That it answers at all is the answer: a probe for liveness.",
        shapes.Health, open=True,
    ),
    Described(
        "GET", "/readyz", "Whether connections are taken.",
        "Refused before all listeners are open and while the hub drains: a readiness probe.",
        shapes.Health, refusals=("closing",), open=True,
    ),
    Described(
        "GET", "/varz", "Every counter, and where the hub listens.", "", shapes.Varz, open=True,
    ),
    Described(
        "GET", "/metrics", "The counters, for Prometheus.",
        "In the text form of Prometheus; the reference has a page with every series.",
        media="text/plain", open=True,
    ),
    Described(
        "GET", "/v1/openapi.json", "This description, OpenAPI 3.1.", "",
        dict[str, Any], open=True,
    ),
    Described(
        "GET", "/connz", "Connections that are open, and the last that are over.", "",
        shapes.Connz,
        queries=(
            _LIMIT, _OFFSET,
            Query("protocol", "Only connections that speak this."),
            Query("client", "Only connections of this client."),
        ),
        refusals=("bad_arguments",),
    ),
    Described(
        "GET", "/topicz", "Topics with a subscriber.", "",
        shapes.Topicz, queries=(_LIMIT, _OFFSET), refusals=("bad_arguments",),
    ),
    Described(
        "GET", "/clientz", "Clients: what they subscribe to, and how much waits for them.", "",
        shapes.Clientz, queries=(_LIMIT, _OFFSET), refusals=("bad_arguments",),
    ),
    Described(
        "GET", "/v1/top", "The hub at one moment, for `wirelake top`.",
        "Counters, durations of calls in buckets, the busiest topics, and connections that ended "
        "badly. Who asks twice knows the rates.",
        Top, queries=(Query("limit", "How many topics at most.", 50, 1_000),),
        refusals=("bad_arguments",),
    ),
    Described(
        "POST", "/v1/publish", "Publish to a topic or to one client.",
        "Answered when it is on disk. Wants either `topic` or `client`, and either `content` or "
        "`content_base64`.",
        shapes.PublishAnswer, body=Wanted,
        refusals=("bad_arguments", "not_found", "too_large", *_STORING),
    ),
    Described(
        "GET", "/v1/inbox/{client}", "What a client has not acknowledged.", "",
        shapes.Inbox, queries=(_LIMIT,), places=(("client", "The id of a client."),),
        refusals=("bad_arguments", "not_found", "storage_failed"),
    ),
    Described(
        "GET", "/v1/dead", "Notifications that were given up, and why.", "",
        shapes.Dead, queries=(_LIMIT, Query("client", "Only those for this client.")),
        refusals=("bad_arguments", "not_found", "storage_failed"),
    ),
    Described(
        "POST", "/v1/dead/redrive", "Put dead letters back into their inboxes.",
        "Wants either `ids` or `client`, a thousand letters at most. Each gets a new id.",
        shapes.Redriven, body=Redrive,
        refusals=("bad_arguments", "not_found", "too_large", *_STORING),
    ),
    Described(
        "GET", "/v1/tables/{table}", "Rows of a live table, as far as they are final.",
        "There are some when the configuration says `record.tables = true`. The columns are those "
        "of the tables of the same names.",
        shapes.Rows, queries=(Query("limit", "How many at most.", 100, 10_000),),
        places=(("table", "`calls`, `deliveries`, `connections` or `tunnels`."),),
        refusals=("bad_arguments", "not_found"),
    ),
    Described(
        "GET", "/v1/tail", "Messages as they cross the hub.",
        "Server-sent events that do not end: `message` has a row of `messages` as JSON, tokens and "
        "keys masked; `dropped` has `{\"count\": n}`, for a reader that was too slow for so many. "
        "With `bytes=1` a message has its frame as `frame_hex`, in which secrets are zeros, and "
        "the `dialect` in which to read it.",
        media="text/event-stream",
        queries=(
            Query("filter", "Only these, in the language of filters."),
            Query("protocol", "Only messages of this protocol."),
            Query("bytes", "1 to have the bytes as well.", 0, 1),
        ),
        refusals=("bad_arguments", "too_busy"),
    ),
)  # fmt: skip
"""Every address, in the order of the page."""
