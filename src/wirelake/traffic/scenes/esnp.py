"""Services on ESNP: calls with values of every type, infos, events, traces, answers in parts.

Most calls carry FLAG_ASYNC, so that several are under way and answers overtake each other. Some
fail, some are answered when nobody waits any more, some never. Now and then the server calls back.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Data,
    FlagType,
    Header,
    Payload,
    Row,
    SessionInfo,
    SourceAddress,
    Var,
    VarType,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.session import (
    Call,
    EsnpSession,
    Requested,
)
from wirelake.protocols.sansio import Event, Role

from .scene import (
    Actor,
    Line,
    Scene,
)
from .vocabulary import (
    blob,
    sentence,
    value,
)

__all__ = ["service"]

_TARGETS: Final = {
    ("room", "join"): 0.006,
    ("room", "leave"): 0.003,
    ("test", "add"): 0.0012,
    ("user", "profile"): 0.018,
    ("shop", "checkout"): 0.090,
    ("rank", "top"): 0.030,
    ("mail", "send"): 0.045,
}
"""What is called, and the median time that it takes."""
_CALLBACK: Final = ("client", "notify")
_LATE_S: Final = 7.0
"""Longer than a caller waits."""


def service(scene: Scene) -> None:
    """One connection between a caller and a server of services."""
    calls = scene.rng.randint(12, 60)
    first_id = scene.numbers.span("u64be", 2 * calls + 8)
    client = EsnpSession(Role.CLIENT, first_id=first_id, now=scene.now)
    server = EsnpSession(
        Role.SERVER,
        SessionOptions(trace_name=scene.pick("edge-1", "edge-2", "core-7")),
        first_id=first_id + calls + 4,
        now=scene.now,
    )
    line = scene.dial("esnp", client, server, delay_s=scene.think(0.0006, 0.5))
    work = _Work(scene, line)
    line.on_server = lambda event: work.requested(server, event)
    line.on_client = lambda event: work.requested(client, event)
    scene.play(work.caller(client, calls))
    scene.play(work.callbacks(server, max(1, calls // 12)))


class _Work:
    """What both programs do."""

    def __init__(self, scene: Scene, line: Line):
        self.scene = scene
        self.line = line
        self.leisure_s = scene.think(0.08)

    # -- asking ------------------------------------------------------------------------------

    def caller(self, client: EsnpSession, calls: int) -> Actor:
        """Calls, events and infos, some of them in bursts."""
        scene = self.scene
        yield self.line.round_trip_s
        for _ in range(calls):
            what = scene.rng.random()
            if what < 0.12:
                self.line.act(lambda: client.announce(self._event()))
            elif what < 0.20:
                info = (
                    *self._address(("audit", "log")),
                    Payload(data=sentence(scene.rng).encode()),
                )
                self.line.act(partial(client.request, info, flag=FlagType.INFO))
            else:
                self.line.act(lambda: self._call(client))
            if scene.chance(0.6):
                yield scene.think(self.leisure_s)
        yield _LATE_S + 4.0
        self.line.act(client.close)
        self.line.close("client")

    def callbacks(self, server: EsnpSession, count: int) -> Actor:
        """The server asks and announces too."""
        for _ in range(count):
            yield self.scene.think(6 * self.leisure_s) + 2 * self.line.round_trip_s
            if self.line.over:
                return
            rows = (*self._address(_CALLBACK), Payload(data=blob(self.scene.rng, 30)))
            self.line.act(partial(server.request, rows, more_flags=(FlagType.ASYNC,)))
            if self.scene.chance(0.5):
                self.line.act(lambda: server.announce(self._event()))

    def _call(self, client: EsnpSession) -> None:
        scene = self.scene
        flags = [FlagType.ASYNC] if scene.chance(0.8) else []
        if scene.chance(0.08):
            flags.append(FlagType.TRACE)
        target = scene.pick(*_TARGETS)
        client.request((*self._address(target), *self._arguments()), more_flags=flags)

    def _address(self, target: tuple[str, str]) -> tuple[Row, ...]:
        rows: list[Row] = [
            Address(kind=AddressKind.SERVICE, value=target[0]),
            Address(kind=AddressKind.OP, value=target[1]),
        ]
        if self.scene.chance(0.2):
            rows.append(SourceAddress(kind=AddressKind.SERVICE, value="gateway"))
        return tuple(rows)

    def _arguments(self) -> tuple[Row, ...]:
        rng = self.scene.rng
        rows: list[Row] = [Data(name=f"p{n}", value=value(rng)) for n in range(rng.randint(0, 3))]
        if rng.random() < 0.15:
            hops = Var(type=VarType.UINT32, value=rng.randint(1, 99))
            rows.append(SessionInfo(name="broker", value=hops))
        if rng.random() < 0.2:
            rows.append(Header(name="lang", value=Var(type=VarType.LEN_STRING, value="zh")))
        if rng.random() < 0.1:
            rows.append(XData(id=rng.randint(1, 300), data=blob(rng, 12)))
        if rng.random() < 0.5:
            rows.append(Payload(data=blob(rng, 40, 6000)))
        return tuple(rows)

    def _event(self) -> tuple[Row, ...]:
        rows = (Data(name="what", value=value(self.scene.rng)),)
        return (*self._address(("feed", "changed")), *rows)

    # -- answering ---------------------------------------------------------------------------

    def requested(self, session: EsnpSession, event: Event) -> None:
        """Somebody asks: answer in time, in parts, with an error, too late, or not at all."""
        if not isinstance(event, Requested):
            return
        call, scene = event.call, self.scene
        median_s = next((s for (_, op), s in _TARGETS.items() if self._op(call) == op), 0.004)
        delay_s = scene.think(median_s, 0.5)
        fate = scene.rng.random()
        if fate < 0.02 and call.concurrent:
            return
        if fate < 0.03 and call.concurrent:
            delay_s = _LATE_S + scene.think(0.5)
        if fate < 0.08:
            self.line.later(delay_s, lambda: session.answer(call, error="not now, try again"))
        elif fate < 0.20 and call.concurrent:
            self._answer_in_parts(session, call, delay_s)
        else:
            self.line.later(delay_s, lambda: session.answer(call, self._result()))

    def _op(self, call: Call) -> str:
        rows = call.message.rows
        return next(
            (r.value for r in rows if isinstance(r, Address) and r.kind == AddressKind.OP), ""
        )

    def _answer_in_parts(self, session: EsnpSession, call: Call, delay_s: float) -> None:
        parts = self.scene.rng.randint(2, 5)
        told = self.scene.chance(0.7)
        for part in range(1, parts + 1):
            seq = (part, parts if told or part == parts else 0)
            rows = (Payload(data=blob(self.scene.rng, 80)),)
            self.line.later(delay_s * part, partial(session.answer, call, rows, seq=seq))

    def _result(self) -> tuple[Row, ...]:
        rng = self.scene.rng
        rows: list[Row] = [Data(name="r", value=value(rng))] if rng.random() < 0.6 else []
        if rng.random() < 0.5:
            rows.append(Payload(data=blob(rng, 60, 9000)))
        return tuple(rows)
