"""ESNP inside TLS, and over IPv6."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.hub.certificates import make_certificate
from tests.hub.listeners_esnp.peer import esnp_hub, run, signed_on

from wirelake.protocols.esnp.layout import Payload


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("tls", [True, False])
def test_everything_works(tmp_path: Path, host: str, tls: bool) -> None:
    async def test() -> None:
        esnp: dict[str, Any] = {"host": host}
        context = None
        if tls:
            certificate = make_certificate(tmp_path)
            esnp["tls"] = certificate.settings
            context = certificate.trusting()
        async with (
            esnp_hub(clients=["alice"], esnp=esnp) as it,
            signed_on(it, "alice", context) as peer,
        ):
            assert await peer.ok("test/add", a=1, b=2) == {"c": 3}
            row = Payload(data=bytes(200_000))
            assert (await peer.call("test/echo", row)).rows[-1] == row
            await peer.ok("hub/subscribe", topic="@news")
            await peer.ok("hub/publish", topic="@news", content="hi", ttl_s=0)
            assert (await peer.notified())["content"] == "hi"

    run(test())
