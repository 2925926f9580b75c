"""One listener for each protocol: a listener, and what the hub does on its connections.

A listener's module is imported when the listener is opened, so a hub loads only what it speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.listener import Listener

__all__ = ["make_listeners"]


def make_listeners(hub: Hub) -> dict[str, Listener]:
    """The listeners that the configuration opens, by name; none of them listens yet."""
    config = hub.config
    listeners: dict[str, Listener] = {}
    if config.esnp.enabled:
        from .esnp import EsnpListener

        listeners["esnp"] = EsnpListener(hub, config.esnp)
    if config.tny.enabled:
        listeners["tny"] = _tny_listener(hub)
    if config.relay.enabled:
        from .relay import RelayListener

        listeners["relay"] = RelayListener(hub, config.relay)
    if config.magline.enabled:
        from .magline import MaglineListener

        listeners["magline"] = MaglineListener(hub, config.magline)
    if config.comet.enabled:
        from .comet import CometListener

        listeners["comet"] = CometListener(hub, config.comet)
    return listeners


def _tny_listener(hub: Hub) -> Listener:
    """Serves tny itself, or relays it when the hub is a gateway."""
    if hub.config.gateway.enabled:
        from .gateway.gateway import GatewayListener

        return GatewayListener(hub, hub.config.tny)
    from .tny import TnyListener

    return TnyListener(hub, hub.config.tny)
