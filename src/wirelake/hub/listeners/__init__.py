"""One listener per protocol: what the hub does on the connections of that protocol.

    esnp          calls and events by name; notifications as events
    tny           calls by number, pushes (`TnyEndpoint` also serves tunnels)
    relay         links of gateways, and the tunnels on them
    tny_gateway   the hub as a gateway: tny connections go through tunnels to backends
    magline       encrypted calls by number, resumption
    comet         push to phones: topics, lists, acknowledgements

Read `hub/net/connection.py` first: it has what all connections share and says what a protocol
provides. A listener may import its own protocol, `hub.net`, `hub.rpc`, `hub.pubsub` and what is
below them, and no other protocol; never `hub.hub` or `hub.admin`. `make_listeners` finds the
listeners through the bindings (`wirelake.protocols.binding`), and imports the module of a listener
only when it is enabled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wirelake.protocols import registry
from wirelake.wire.errors import unknown
from wirelake.wire.protocol import load_reference

from ..config import ConfigError
from ..errors import ERRORS

if TYPE_CHECKING:
    from ..net.context import HubContext
    from ..net.listener import Listener

__all__ = ["make_listeners"]


def make_listeners(hub: HubContext) -> dict[str, Listener]:
    """Return the enabled listeners by name; they do not listen yet."""
    made: dict[str, Listener] = {}
    for name, settings in hub.config.listeners.items():
        if settings.enabled:
            binding = registry.binding(name)
            if unlisted := sorted(binding.errors.keys() - ERRORS.keys()):
                raise ConfigError(f"[{name}]: {unknown('error code', unlisted[0], ERRORS)}")
            reference = binding.listener
            try:
                make = load_reference(reference)
            except (ImportError, AttributeError) as error:
                raise ConfigError(f"[{name}]: cannot load {reference}: {error}") from error
            made[name] = make(hub, settings)
    return made
