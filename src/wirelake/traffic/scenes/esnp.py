"""Services on ESNP: calls with values of every type, infos, events, traces, multi-part responses.

Most calls carry FLAG_ASYNC, so that several are in flight and responses overtake each other. Some
fail, some are answered after the caller's timeout, some never. Sometimes the server calls back.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Final

from wirelake.protocols.esnp.layout import (
    Address,
    AddressKind,
    Data,
    Error,
    FlagType,
    Header,
    MessageId,
    Payload,
    Row,
    SessionInfo,
    SourceAddress,
    SourceMessageId,
    Var,
    VarType,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import summarize
from wirelake.protocols.esnp.session import Call, EsnpSession, Requested
from wirelake.protocols.sansio import Event, Role

from ..packets.numbers import encode_integer
from .provider import Frame, MessageInfo, ProtocolScenes, Scenario
from .scene import Actor, Scene, SceneConnection, blob, sentence

__all__ = ["SCENES", "service"]

_ID_FORM: Final = "u64be"

_TARGETS: Final = {
    ("room", "join"): 0.006,
    ("room", "leave"): 0.003,
    ("test", "add"): 0.0012,
    ("user", "profile"): 0.018,
    ("shop", "checkout"): 0.090,
    ("rank", "top"): 0.030,
    ("mail", "send"): 0.045,
}
"""Services and operations, with the median time of each."""
_CALLBACK: Final = ("client", "notify")
_LATE_S: Final = 7.0
"""Longer than the caller's timeout."""


def service(scene: Scene) -> None:
    """Play one connection between a caller and a service host."""
    calls = scene.rng.randint(12, 60)
    first_id = scene.numbers.span(_ID_FORM, 2 * calls + 8)
    client = EsnpSession(Role.CLIENT, first_id=first_id, now=scene.now)
    server = EsnpSession(
        Role.SERVER,
        SessionOptions(trace_name=scene.pick("edge-1", "edge-2", "core-7")),
        first_id=first_id + calls + 4,
        now=scene.now,
    )
    connection = scene.connect("esnp", client, server, delay_s=scene.delay(0.0006, 0.5))
    work = _Work(scene, connection)
    connection.on_server = lambda event: work.requested(server, event)
    connection.on_client = lambda event: work.requested(client, event)
    scene.start(work.caller(client, calls))
    scene.start(work.callbacks(server, max(1, calls // 12)))


class _Work:
    """Behaviour of both ends."""

    def __init__(self, scene: Scene, connection: SceneConnection):
        self.scene = scene
        self.connection = connection
        self.pause_s = scene.delay(0.08)

    # -- calling -----------------------------------------------------------------------------

    def caller(self, client: EsnpSession, calls: int) -> Actor:
        """Send calls, events and infos, some of them in bursts."""
        scene = self.scene
        yield self.connection.round_trip_s
        for _ in range(calls):
            what = scene.rng.random()
            if what < 0.12:
                self.connection.act(lambda: client.announce(self._event()))
            elif what < 0.20:
                info = (
                    *self._address(("audit", "log")),
                    Payload(data=sentence(scene.rng).encode()),
                )
                self.connection.act(partial(client.request, info, flag=FlagType.INFO))
            else:
                self.connection.act(lambda: self._call(client))
            if scene.chance(0.6):
                yield scene.delay(self.pause_s)
        yield _LATE_S + 4.0
        self.connection.act(client.close)
        self.connection.close("client")

    def callbacks(self, server: EsnpSession, count: int) -> Actor:
        """Send calls and events from the server."""
        for _ in range(count):
            yield self.scene.delay(6 * self.pause_s) + 2 * self.connection.round_trip_s
            if self.connection.closed:
                return
            rows = (*self._address(_CALLBACK), Payload(data=blob(self.scene.rng, 30)))
            self.connection.act(partial(server.request, rows, more_flags=(FlagType.ASYNC,)))
            if self.scene.chance(0.5):
                self.connection.act(lambda: server.announce(self._event()))

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
        """Answer a request: in time, in parts, with an error, too late, or not at all."""
        if not isinstance(event, Requested):
            return
        call, scene = event.call, self.scene
        median_s = next((s for (_, op), s in _TARGETS.items() if self._op(call) == op), 0.004)
        delay_s = scene.delay(median_s, 0.5)
        outcome = scene.rng.random()
        if outcome < 0.02 and call.concurrent:
            return
        if outcome < 0.03 and call.concurrent:
            delay_s = _LATE_S + scene.delay(0.5)
        if outcome < 0.08:
            self.connection.later(delay_s, lambda: session.answer(call, error="not now, try again"))
        elif outcome < 0.20 and call.concurrent:
            self._answer_in_parts(session, call, delay_s)
        else:
            self.connection.later(delay_s, lambda: session.answer(call, self._result()))

    def _op(self, call: Call) -> str:
        rows = call.message.rows
        return next(
            (r.value for r in rows if isinstance(r, Address) and r.kind == AddressKind.OP), ""
        )

    def _answer_in_parts(self, session: EsnpSession, call: Call, delay_s: float) -> None:
        parts = self.scene.rng.randint(2, 5)
        counted = self.scene.chance(0.7)
        for part in range(1, parts + 1):
            seq = (part, parts if counted or part == parts else 0)
            rows = (Payload(data=blob(self.scene.rng, 80)),)
            self.connection.later(delay_s * part, partial(session.answer, call, rows, seq=seq))

    def _result(self) -> tuple[Row, ...]:
        rng = self.scene.rng
        rows: list[Row] = [Data(name="r", value=value(rng))] if rng.random() < 0.6 else []
        if rng.random() < 0.5:
            rows.append(Payload(data=blob(rng, 60, 9000)))
        return tuple(rows)


# -- values ------------------------------------------------------------------------------------

_RANGES: Final = {
    VarType.INT: (-1000, 1000),
    VarType.INT8: (-128, 127),
    VarType.INT16: (-(1 << 15), (1 << 15) - 1),
    VarType.INT32: (-(1 << 31), (1 << 31) - 1),
    VarType.INT64: (-(1 << 63), (1 << 63) - 1),
    VarType.UINT: (0, 100_000),
    VarType.UINT8: (0, 255),
    VarType.UINT16: (0, (1 << 16) - 1),
    VarType.UINT32: (0, (1 << 32) - 1),
    VarType.UINT64: (0, (1 << 64) - 1),
}
_SCALARS: Final = [kind for kind in VarType if kind not in {VarType.MAP, VarType.LIST}]


def value(rng: random.Random, depth: int = 0) -> Var:
    """Return a random value of any type."""
    kind = rng.choice(list(VarType) if depth < 2 else _SCALARS)
    return Var(type=kind, value=_value_of(kind, rng, depth))


def _value_of(kind: VarType, rng: random.Random, depth: int) -> object:
    match kind:
        case VarType.NULL:
            return None
        case VarType.BOOL:
            return rng.random() < 0.5
        case VarType.FLOAT32:
            return rng.randint(-4096, 4096) / 16
        case VarType.FLOAT64:
            return rng.uniform(-1e6, 1e6)
        case VarType.LEN_BYTES:
            return blob(rng, 16, 64)
        case VarType.LEN_STRING:
            return sentence(rng, 20)
        case VarType.MAP:
            return tuple((f"k{n}", value(rng, depth + 1)) for n in range(rng.randint(0, 3)))
        case VarType.LIST:
            return tuple(value(rng, depth + 1) for _ in range(rng.randint(0, 3)))
        case _:
            return rng.randint(*_RANGES[kind])


# -- reading back ------------------------------------------------------------------------------

_KINDS: Final = {
    "REQUEST": ("request", "request"),
    "INFO": ("request", "info"),
    "EVENT": ("event", "event"),
    "NONE": ("event", "event"),
    "TRACE_INFO": ("trace", "trace_info"),
    "RESPONSE": ("response", "response"),
    "INFO_RESPONSE": ("response", "info_response"),
}


def _describe(_: ProtocolScenes, frame: Frame) -> None:
    summary = summarize(frame.message)
    kind, name = _KINDS[summary.kind]
    info = frame.info = MessageInfo(kind, name, summary.id, summary.source_id)
    if kind == "response":
        info.status = "error" if summary.failed else "ok"
        if summary.seq is not None and summary.seq[0] != summary.seq[1]:
            info.kind = "part"
    address: dict[int, str] = {}
    for row in frame.message.rows:
        match row:
            case MessageId() | SourceMessageId():
                frame.ids.append(encode_integer(_ID_FORM, row.value))
            case Address():
                address.setdefault(row.kind, row.value)
            case Error():
                info.reason = row.value
            case Payload() if info.body_bytes is None:
                info.body_bytes = len(row.data)
    kinds = (AddressKind.SERVICE, AddressKind.OP)
    info.target = "/".join(address[kind] for kind in kinds if kind in address) or None


SCENES: Final = (
    ProtocolScenes(
        "esnp",
        scenarios=(Scenario("service", service, ("esnp",), 1.2, 1.2, position=3),),
        describe=_describe,
        id_form=_ID_FORM,
        # A reader scans rows up to the END row, whatever they hold: no byte of a row can break the
        # body and leave the end of the message known.
        head_bytes=1 << 30,
    ),
)
"""Simulated ESNP traffic."""
