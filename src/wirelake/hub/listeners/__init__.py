"""One door for each protocol: a listener, and what the hub does on its connections.

A door's module is imported when the door is opened, so a hub loads only what it speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..hub import Hub
    from ..net.listener import Door

__all__ = ["make_doors"]


def make_doors(hub: Hub) -> dict[str, Door]:
    """The doors that the configuration opens, by name; none of them listens yet."""
    config = hub.config
    doors: dict[str, Door] = {}
    if config.esnp.enabled:
        from .esnp import EsnpDoor

        doors["esnp"] = EsnpDoor(hub, config.esnp)
    if config.tny.enabled:
        doors["tny"] = _tny_door(hub)
    if config.relay.enabled:
        from .relay import RelayDoor

        doors["relay"] = RelayDoor(hub, config.relay)
    if config.magline.enabled:
        from .magline import MaglineDoor

        doors["magline"] = MaglineDoor(hub, config.magline)
    if config.comet.enabled:
        from .comet import CometDoor

        doors["comet"] = CometDoor(hub, config.comet)
    return doors


def _tny_door(hub: Hub) -> Door:
    """Serves tny itself, or relays it when the hub is a gateway."""
    if hub.config.gateway.enabled:
        from .gateway.gateway import GatewayDoor

        return GatewayDoor(hub, hub.config.tny)
    from .tny import TnyDoor

    return TnyDoor(hub, hub.config.tny)
