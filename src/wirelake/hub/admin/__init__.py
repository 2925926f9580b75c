"""The HTTP side of the hub: publish, health, metrics, a look inside.

server       the listener, in the hub's own loop
app          addresses, who may ask, and how refusals look
pages        what there is: connections, topics, clients, counters
publishing   POST /v1/publish
inboxes      what waits, what was given up, and giving it another chance
top          what `wirelake top` shows
metrics      the counters as Prometheus wants them
tail         messages as they cross, as server-sent events
tables       calls, deliveries and connections, as far as they are final
openapi      GET /v1/openapi.json, made of described (each address) and shapes (each answer)
"""

from __future__ import annotations

from .server import AdminServer
from .token import admin_token

__all__ = ["AdminServer", "admin_token"]
