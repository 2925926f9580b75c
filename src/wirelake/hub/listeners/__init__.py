"""One listener per protocol: what the hub does on the connections of that protocol.

    esnp.py      calls and events by name; notifications as events
    tny.py       calls by number, pushes, for clients (`TnyEndpoint` also serves tunnels)
    relay.py     links of gateways, and the tunnels on them
    tny_gateway.py   the hub as a gateway: tny connections go through tunnels to backends
    magline.py   encrypted calls by number, resumption
    comet.py     push to phones: topics, lists, acknowledgements

Read `hub/net/connection.py` first: it has what all connections share and says what a protocol
provides. A listener knows its own protocol and the hub's interfaces, and no other protocol. Which
listeners there are is not known here: `make_listeners` asks the bindings
(`wirelake.protocols.binding`), and imports a listener's module only when it is enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirelake.protocols import registry
from wirelake.protocols.binding import load_reference

from ..config import ConfigError

if TYPE_CHECKING:
    from ..net.context import HubContext
    from ..net.listener import Listener

__all__ = ["make_listeners"]


def make_listeners(hub: HubContext) -> dict[str, Listener]:
    """The enabled listeners by name; none of them listens yet."""
    made: dict[str, Listener] = {}
    for name, settings in hub.config.listeners.items():
        if settings.enabled:
            reference = registry.binding(name).listener
            try:
                make = load_reference(reference)
            except (ImportError, AttributeError) as error:
                raise ConfigError(f"[{name}]: cannot load {reference}: {error}") from error
            made[name] = make(hub, settings)
    return made
