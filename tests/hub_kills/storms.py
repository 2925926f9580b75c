"""Storms on a hub: silent TLS and HTTP connections, many short ones, and unfinished messages.

Each function returns what it counted, the resident memory of the hub before, during and after the
storm, and a list of problems. `hub_soak.py` runs them in full, `test_hub_storms.py` small ones.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.adversity.healthy_peers import HealthyPeers
from tests.adversity.reconnects import silent
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw.hub_process import HubProcess, running_hub, wait_until
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.throwaway_tls import Certificate, make_certificate

__all__ = ["http_storm", "tls_storm", "unfinished_messages"]

_HALF_OPEN = 256
"""Default of `limits.half_open_per_address`."""
_OTHER_DESCRIPTORS = 16
"""Descriptors that the hub may open meanwhile: HTTP, and one that is accepted and refused."""
_GROWTH_KB = 8 * 1024
"""How much larger the hub may be after a second storm than after the first: 130 bytes for each
connection of a full soak."""
_LEFT_KB = 64 * 1024
"""How much larger it may be after the first storm than before."""
_UNFINISHED_KB = 160 * 1024
"""Memory of unfinished messages: 64 MB for a client, twice where buffers grow by copying."""


_DROPPED = {"buffered_bytes_per_client", "too_slow"}
"""Why connections with unfinished messages are dropped: in a long storm, the first are too slow."""


def tls_storm(silent_count: int, connects: int) -> dict[str, Any]:
    """Silent connections to TLS listeners, then short ones, with and without a handshake."""
    with tempfile.TemporaryDirectory(prefix="wirelake-storm-") as name:
        folder = Path(name)
        made = make_certificate(folder)
        tables = {each: {"tls": made.settings} for each in ("esnp", "comet", "magline")}
        limits = {"handshake_s": 2.0, "connects_per_s": 100_000.0}
        with running_hub(folder, {**tables, "limits": limits}) as hub:
            return asyncio.run(_tls_storm(hub, made, silent_count, connects))


async def _tls_storm(
    hub: HubProcess, made: Certificate, silent_count: int, connects: int
) -> dict[str, Any]:
    tls = ssl.create_default_context(cafile=str(made.certificate))
    before_kb, before = hub.memory_kb(), hub.descriptors()
    writers = await silent(hub.addresses["comet"], silent_count)
    # Counted by what the hub holds: however late it accepts them, never more than the limit, and
    # those whose handshake has timed out make room for others.
    held, peak_kb = 0, 0
    while _settled(hub, "comet") < silent_count:
        held = max(held, hub.descriptors() - before)
        peak_kb = max(peak_kb, hub.memory_kb())
        await asyncio.sleep(0.02)
    refused = hub.varz()["refused"]
    problems = []
    if held > _HALF_OPEN + _OTHER_DESCRIPTORS:
        problems.append(f"{silent_count} silent TLS connections: {held} held, refused: {refused}")
    for writer in writers:
        writer.transport.abort()
    after_kb = []
    for _ in range(2):
        for listener in ("esnp", "comet", "magline"):
            await _short(hub.addresses[listener], None, connects)
            await _short(hub.addresses[listener], tls, connects // 20)
        await _wait(lambda: not hub.varz()["connections"], "all have gone")
        after_kb.append(hub.memory_kb())
    return _result(
        {
            "silent": silent_count,
            "held": held,
            "connects": 6 * (connects + connects // 20),
            "refused": refused,
        },
        problems,
        before_kb,
        peak_kb,
        after_kb,
    )


def _settled(hub: HubProcess, protocol: str) -> int:
    """How many connections were refused, or ended before their handshake was complete."""
    found = hub.varz()
    failures = found["handshake_failures"].get(protocol, {})
    return int(sum(found["refused"].values()) + sum(failures.values()))


async def _short(
    address: tuple[str, int], tls: ssl.SSLContext | None, count: int, at_once: int = 50
) -> None:
    """Connect, with TLS complete the handshake, and close."""
    numbers = iter(range(count))

    async def one_after_the_other() -> None:
        for _ in numbers:
            with suppress(OSError):  # refused: the hub has as many as it takes
                _, writer = await asyncio.open_connection(*address, ssl=tls)
                writer.transport.abort()

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))


def http_storm(idle: int, connects: int) -> dict[str, Any]:
    """Idle HTTP connections, and short ones: every liveness probe is answered meanwhile."""
    with (
        tempfile.TemporaryDirectory(prefix="wirelake-storm-") as name,
        running_hub(Path(name)) as hub,
    ):
        return asyncio.run(_http_storm(hub, idle, connects))


async def _http_storm(hub: HubProcess, idle: int, connects: int) -> dict[str, Any]:
    before_kb = hub.memory_kb()
    writers = await silent(hub.addresses["admin"], idle)
    for writer in writers:
        writer.write(b"GET /varz HTTP/1.1\r\nHost: ")
    answers = [(await asyncio.to_thread(hub.http, "GET", "/healthz")).status for _ in range(20)]
    problems = [f"/healthz: {status}" for status in answers if status != 200]
    peak_kb = hub.memory_kb()
    for writer in writers:
        writer.transport.abort()
    after_kb = []
    for _ in range(2):
        await _short(hub.addresses["admin"], None, connects)
        after_kb.append(hub.memory_kb())
    return _result(
        {"idle": idle, "connects": 2 * connects, "probes": len(answers)},
        problems,
        before_kb,
        peak_kb,
        after_kb,
    )


def unfinished_messages(connections: int, size: int) -> dict[str, Any]:
    """Connections of one token, each with an unfinished message: a bounded part of it is kept."""
    with (
        tempfile.TemporaryDirectory(prefix="wirelake-storm-") as name,
        running_hub(Path(name)) as hub,
    ):
        return _unfinished(hub, connections, size)


def _unfinished(hub: HubProcess, connections: int, size: int) -> dict[str, Any]:
    client, token = hub.client()
    others = HealthyPeers(hub)
    message = esnp.encoded(esnp.call_rows(1, "test", "echo", {}, (esnp.PAYLOAD, bytes(size))))
    before_kb = peak_kb = hub.memory_kb()
    peers = []
    for _ in range(connections):
        peer = RawEsnp(hub.dial("esnp"))
        peer.call("hub", "auth", {"id": client, "token": token})
        peers.append(peer)
        with suppress(OSError):  # dropped while it sends
            peer.line.send(message[:-100])
        peak_kb = max(peak_kb, hub.memory_kb())
        others.check()  # also so that none of them is idle for too long
    dropped = hub.varz()["drops"].get("esnp", {})
    for peer in peers:
        peer.close()
    wait_until(lambda: hub.varz()["connections"].get("esnp") == 1, "all have gone")
    others.leave()
    problems = []
    if peak_kb - before_kb > _UNFINISHED_KB:
        problems.append(f"{connections} unfinished messages took {peak_kb - before_kb} kB")
    if "buffered_bytes_per_client" not in dropped or set(dropped) - _DROPPED:
        problems.append(f"dropped: {dropped}")
    numbers = {"connections": connections, "bytes_each": size, "dropped": dropped}
    after_kb = _given_back(hub, before_kb)
    return _result(numbers, problems, before_kb, peak_kb, [after_kb])


def _result(
    numbers: dict[str, Any],
    problems: list[str],
    before_kb: int,
    peak_kb: int,
    after_kb: list[int],
) -> dict[str, Any]:
    if after_kb[0] - before_kb > _LEFT_KB:
        problems.append(f"memory grew from {before_kb} kB to {after_kb[0]} kB")
    if after_kb[-1] - after_kb[0] > _GROWTH_KB:
        problems.append(f"memory grew from {after_kb[0]} kB to {after_kb[-1]} kB")
    memory = {"before_kb": before_kb, "peak_kb": peak_kb, "after_kb": after_kb}
    return {**numbers, **memory, "problems": problems}


def _given_back(hub: HubProcess, before_kb: int) -> int:
    """The memory after the hub had time to give some back."""
    until = time.monotonic() + 20.0
    while (found := hub.memory_kb()) - before_kb > _LEFT_KB and time.monotonic() < until:
        time.sleep(0.1)
    return found


async def _wait(true: Callable[[], Any], what: str) -> None:
    await asyncio.to_thread(wait_until, true, what, 120.0)
