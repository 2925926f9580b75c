"""`GET /v1/tables/{table}`: calls, deliveries, connections, tunnels, as far as they are final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from wirelake.records import ENGINES

from ..errors import HubError
from ..observe.live_decoder import (
    KEPT_ROWS,
    LiveDecoder,
    LiveTables,
)
from .answers import (
    JsonResponse,
    hub_of,
    known_queries,
    number,
)

if TYPE_CHECKING:
    from ..hub import Hub

__all__ = ["table"]

_DEFAULT: Final = 100


async def table(request: Request) -> Response:
    """The newest rows of a live table, the oldest of them first."""
    known_queries(request, "limit")
    limit = number(request, "limit", _DEFAULT, KEPT_ROWS)
    name = request.path_params["table"]
    if name not in ENGINES:
        raise HubError("not_found", f"no such table; there are {', '.join(ENGINES)}")
    rows = _live_tables(hub_of(request)).rows(name)
    return JsonResponse({"count": len(rows), "rows": rows[max(0, len(rows) - limit) :]})


def _live_tables(hub: Hub) -> LiveTables:
    decoder = hub.tap.find(LiveDecoder)
    if decoder is None or decoder.tables is None:
        raise HubError("not_found", "no live tables; set record.tables = true")
    return decoder.tables
