"""The parts of `benchmarks.hub` that have peers: fan-out, calls, latency, idle connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from .captures_report import at_most
from .hub_load import Load
from .hub_ours import OurHub
from .hub_plan import Contender, Plan, turns
from .hub_report import Findings, ratio_rules
from .hub_servers import PEERS, Server

__all__ = ["CALLERS", "SIZES", "best", "fanout", "idle", "latency", "reach", "rpc"]

SIZES = {"64 B": 64, "1 KiB": 1024}
AUDIENCES = (10, 100, 1000)
FANOUT_DEPTHS = (1, 64)
CALLERS = 50
RPC_DEPTHS = (1, 32)
IDLE = 10_000
OPENING = {"comet": 64, "ESNP": 64, "tny": 64, "magline": 16}
"""Connections that are being opened at a time: the hub has limits, and magline one of its own."""
BUSY = 0.97
"""A generator that uses more of its core than this may be what is measured."""
_FANOUT = ("comet", "ESNP")
_RPC = ("ESNP", "tny")
_MEASURED = ("maximum", "rate", "p50 µs", "p99 µs", "p99.9 µs")

Runs = dict[str, dict[str, Callable[[], Load]]]


def reach(server: Server, protocol: str) -> Contender:
    """How the hub's own listener is reached; publishes always come in over ESNP."""
    assert isinstance(server, OurHub)
    listener = protocol.lower()
    return Contender(
        protocol,
        {
            "protocol": listener,
            "port": server.ports[listener],
            "publisher": "esnp",
            "publisher_port": server.ports["esnp"],
            "clients": server.clients,
            "window": OPENING[protocol],
        },
    )


def _peers(servers: list[Server]) -> list[Contender]:
    """How peers are reached."""
    return [
        Contender(each.name, {"protocol": protocol, "port": port})
        for each in servers
        for protocol, port in each.ports.items()
    ]


def best(found: Mapping[str, Mapping[str, list[Load]]], to: Findings) -> None:
    """Notes the best round of each; noise only ever takes away."""
    for row, contenders in found.items():
        for name, loads in contenders.items():
            quickest = max(loads, key=lambda load: load.rate)
            to.add(row, name, quickest.rate)
            if quickest.busy > BUSY:
                to.notes.append(f"{row}, {name}: the load generator could do no more")


# -- fan-out -----------------------------------------------------------------------------------


def fanout(plan: Plan) -> Findings:
    """Publishes that are not stored, to many subscribers."""
    found = Findings("fan-out of publishes that are not stored", "deliveries/s")
    audiences = plan.several(AUDIENCES)
    with ExitStack() as stack:
        ours = plan.hub(stack, max(audiences) + 1)
        contenders = [reach(ours, name) for name in _FANOUT]
        contenders += _peers(plan.peers(stack))
        runs: Runs = {
            _fanout_row(size, audience, depth): {
                each.name: partial(
                    plan.run, each, "fanout", connections=audience, depth=depth, size=SIZES[size]
                )
                for each in contenders
            }
            for size in SIZES
            for audience in audiences
            for depth in FANOUT_DEPTHS
        }
        best(turns(runs, plan.rounds), found)
    _judge_fanout(found, [each for each in audiences if each >= plan.connections(100)])
    return found


def _fanout_row(size: str, audience: int, depth: int) -> str:
    return f"{size} to {audience}, depth {depth}"


def _judge_fanout(found: Findings, many: list[int]) -> None:
    for ours in _FANOUT:
        for depth in FANOUT_DEPTHS:
            rows = {row: each for row, each in found.rows.items() if row.endswith(f"depth {depth}")}
            crowded = {
                row: each for row, each in rows.items() if any(f"to {n}," in row for n in many)
            }
            title = f"fan-out depth {depth}"
            if depth == 1:
                found.rules += ratio_rules(title, rows, ours, "nats", required=0.8, target=1.0)
            else:
                found.rules += ratio_rules(title, crowded, ours, "nats", required=2.0)
                found.rules += ratio_rules(title, rows, ours, "nats", required=None, target=1.0)
        found.rules += ratio_rules("fan-out", found.rows, ours, "amqtt", required=3.0)


# -- calls -------------------------------------------------------------------------------------


def rpc(plan: Plan) -> Findings:
    """Calls that echo their payload, on fifty connections."""
    callers = plan.connections(CALLERS)
    found = Findings(f"calls, {callers} connections", "answers/s")
    found.notes += [
        "ESNP test/echo, tny 1001; nats and MQTT: a responder in the load generator; redis: ECHO",
    ]
    with ExitStack() as stack:
        ours = plan.hub(stack, callers)
        contenders = [reach(ours, name) for name in _RPC]
        contenders += _peers(plan.peers(stack))
        runs: Runs = {
            f"{size}, depth {depth}": {
                each.name: partial(
                    plan.run, each, "rpc", connections=callers, depth=depth, size=SIZES[size]
                )
                for each in contenders
            }
            for size in SIZES
            for depth in RPC_DEPTHS
        }
        added = {
            each.name: partial(plan.run, each, "rpc", connections=callers, depth=32, op="add")
            for each in contenders[: len(_RPC)]
        }
        runs["typed a + b, depth 32"] = dict(added)
        best(turns(runs, plan.rounds), found)
    _judge_rpc(found)
    return found


def _judge_rpc(found: Findings) -> None:
    required_ratios = dict(zip(RPC_DEPTHS, (0.5, 0.15), strict=True))
    for ours in _RPC:
        for depth, required in required_ratios.items():
            rows = {row: each for row, each in found.rows.items() if row.endswith(f"depth {depth}")}
            found.rules += ratio_rules(
                f"calls depth {depth}", rows, ours, "nats", required=required, target=1.0
            )
        found.rules += ratio_rules("calls", found.rows, ours, "amqtt", required=10.0)


# -- latency -----------------------------------------------------------------------------------


def latency(plan: Plan) -> Findings:
    """How long it takes at half of what each can do, from the time a message was due."""
    found = Findings("latency at half of the maximum, 64 B", "µs, and in a second")
    found.notes.append("maximum and rate: publishes or requests in a second")
    audience, callers = plan.connections(100), plan.connections(CALLERS)
    with ExitStack() as stack:
        ours = plan.hub(stack, max(audience + 1, callers))
        peers = _peers(plan.peers(stack))
        rows: dict[str, Callable[..., Load]] = {}
        for each in [*(reach(ours, name) for name in _FANOUT), *peers]:
            rows[f"fan-out to {audience}: {each.name}"] = partial(
                plan.run, each, "fanout", connections=audience
            )
        for each in [*(reach(ours, name) for name in _RPC), *peers]:
            rows[f"calls, {callers}: {each.name}"] = partial(
                plan.run, each, "rpc", connections=callers
            )
        most = _most(rows, plan.rounds)
        halved: Runs = {
            row: {"half": partial(rows[row], rate=rate / 2)} for row, rate in most.items() if rate
        }
        for row, loads in turns(halved, plan.rounds).items():
            quickest = min(loads["half"], key=lambda load: load.p99_us or float("inf"))
            values = (quickest.sent_rate, quickest.p50_us, quickest.p99_us, quickest.p999_us)
            for column, value in zip(_MEASURED, (most[row], *values), strict=True):
                found.add(row, column, value)
    return found


def _most(rows: Mapping[str, Callable[..., Load]], rounds: int) -> dict[str, float]:
    """Publishes or requests that each can do in a second, with many under way."""
    deep: Runs = {
        row: {"most": partial(run, depth=64 if row.startswith("fan-out") else 32)}
        for row, run in rows.items()
    }
    found = turns(deep, rounds)
    return {row: max(load.sent_rate for load in each["most"]) for row, each in found.items()}


# -- idle --------------------------------------------------------------------------------------


def idle(plan: Plan) -> Findings:
    """Memory of connections that do nothing."""
    count = plan.connections(IDLE)
    found = Findings(f"{count:,} idle connections, signed on", "KB of resident memory for each")
    with ExitStack() as stack:
        ours = plan.hub(stack, count)
        comet = reach(ours, "comet")
        _hold(plan, found, ours, comet, count)
        for server in plan.peers(stack, ("nats", "redis", "mosquitto")):
            protocol = PEERS[server.name][0]
            _hold(
                plan,
                found,
                server,
                Contender(server.name, {"protocol": protocol, "port": server.ports[protocol]}),
                count,
            )
    found.rules += at_most("an idle comet connection, KB", found.rows["memory"]["comet"], 4)
    return found


def _hold(plan: Plan, found: Findings, server: Server, each: Contender, count: int) -> None:
    before = server.rss_kb
    with plan.generator.held(connections=count, **each.options):
        found.add("memory", each.name, (server.rss_kb - before) / count)
