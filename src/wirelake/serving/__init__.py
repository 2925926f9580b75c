"""Processes that offer services to hubs: `wirelake serve`.

    services = Services()          # as in a hub: wirelake.hub.rpc.services

    async with ServiceProcess(services, "esnp://hub:9600", id="shop-1", token=token) as process:
        await process.wait()

In reading order:

    process    `ServiceProcess`: connects, offers the services, drains
    esnp       the hub's requests on one connection

The hub's side is in `wirelake.hub.rpc.offers` and `wirelake.hub.listeners.esnp_provider`; what
crosses the wire is described in `docs/guides/services-wire.md`. This package joins the services
of `wirelake.hub` with the connection of `wirelake.client`, which do not know each other.
"""

from .process import ServiceProcess

__all__ = ["ServiceProcess"]
