"""The HTTP interface of the hub: publish, health, metrics, state.

Read in this order:

    app             routes, errors; `GET /v1/openapi.json`
    access          tokens and roles, delays after wrong tokens, the Host header
    http            reading requests and writing JSON
    pages           health, counters, connections, topics, clients
    notifications   publish, inboxes, dead letters
    top             the state that `wirelake top` shows
    metrics         the counters as Prometheus metrics
    live            live tables, and messages as server-sent events; needs pyarrow
    endpoints       a description of each endpoint
    schemas         the types of their answers
    server          uvicorn in the hub's event loop; the administrator's token

The only package of the hub that imports the web framework. It reads `Hub`; only `hub.run` imports
it. It may not import `hub.listeners`.
"""

from __future__ import annotations

from .server import AdminServer, admin_token

__all__ = ["AdminServer", "admin_token"]
