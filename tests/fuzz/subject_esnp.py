"""ESNP sessions to attack: asked, asking, gathering sequences, routing; both dialects."""

from __future__ import annotations

from functools import cache
from random import Random

from tests.fuzz.subject import Subject
from tests.playbooks.esnp.peer import (
    ASYNC,
    CODECS,
    EVENT,
    INFO,
    REQUEST,
    RESP,
    TRACE,
    TRACE_INFO,
    data,
    err,
    m,
    mid,
    smid,
    to,
)

from wirelake.protocols.esnp.layout import (
    FlagType,
    Message,
    OpaqueRow,
    Payload,
    Row,
    SeqNo,
    SessionInfo,
    Var,
    VarType,
    Version,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.session import Call, EsnpSession, Requested
from wirelake.protocols.sansio import Event, Role, Session

__all__ = ["EsnpEnd", "make"]

LIMIT = 2048
_HEAD = 4
_POOL = 600
_KINDS: tuple[tuple[Row, ...], ...] = (
    (REQUEST,),
    (REQUEST,),
    (REQUEST, ASYNC),
    (REQUEST, TRACE),
    (INFO,),
    (EVENT,),
    (RESP,),
    (RESP,),
    (TRACE_INFO,),
    (EVENT, TRACE),
    (),
)
_LIMITS = {
    "message_limit": LIMIT,
    "max_calls": 4,
    "max_requests": 4,
    "max_request_bytes": 600,
    "max_parts": 3,
    "max_part_bytes": 600,
}
OPTIONS = tuple(
    SessionOptions(**_LIMITS, **more)  # type: ignore[arg-type]
    for more in (
        {},
        {"trace_name": "node", "idle_limit_s": 60.0},
        {"strict": True},
        {"dialect": "go", "trace_name": "node"},
        {"routes": True, "trace_name": "router"},
        {"revision": "frames", "legacy_rows": True},
        {"require_major": 1, "version": Version(major=1, minor=0, branch=0, variant=0)},
    )
)


@cache
def pool(dialect: str) -> tuple[bytes, ...]:
    """Messages of every kind, with the few ids that the sessions here have calls of."""
    rng = Random(f"esnp {dialect}")
    encode = CODECS[dialect].encode_message
    return tuple(encode(_message(rng)) for _ in range(_POOL))


def _message(rng: Random) -> Message:
    kind = rng.choice(_KINDS)
    rows: list[Row] = list(kind)
    if rng.random() < 0.1:
        rows.append(Version(major=rng.randrange(3), minor=0, branch=0, variant=0))
    if RESP in kind or TRACE_INFO in kind:
        rows.append(smid(rng.randrange(6)))
    elif rng.random() < 0.9:
        rows.append(mid(rng.choice((0, 1, 2, 3, 4, 5, 1 << 63))))
    if rng.random() < 0.35:
        last = rng.randrange(1, 5)
        rows.append(SeqNo(current=rng.randrange(last + 2), maximum=rng.choice((last, 0))))
    if rng.random() < 0.15:
        rows.append(err(rng.choice(("", "failed"))))
    rows += to("test", "add") if rng.random() < 0.3 else ()
    rows += _body(rng)
    if rng.random() < 0.1:
        rng.shuffle(rows)
    return m(*rows)


def _body(rng: Random) -> list[Row]:
    rows: list[Row] = []
    if rng.random() < 0.5:
        rows.append(data("a", rng.randrange(1 << 20)))
    if rng.random() < 0.3:
        rows.append(Payload(data=rng.randbytes(rng.choice((0, 9, 250)))))
    if rng.random() < 0.2:
        rows.append(SessionInfo(name="node", value=Var(type=VarType.UINT32, value=7)))
    if rng.random() < 0.1:
        rows.append(XData(id=3, data=b"x"))
    if rng.random() < 0.1:
        rows.append(OpaqueRow(type=rng.randrange(0x30, 0x100), data=b"?"))
    return rows


class EsnpEnd(Subject):
    """One end; both roles are alike."""

    def __init__(self, rng: Random):
        super().__init__(rng)
        options = rng.choice(OPTIONS)
        self.session = EsnpSession(rng.choice((Role.CLIENT, Role.SERVER)), options)
        self.sessions = [self.session]
        self._pool = pool(options.dialect)
        self._calls: list[Call] = []
        if not options.routes:
            for _ in range(self.pick(0.3, 0.3, 0.2)):
                self.session.request([data("a", 1)])
        for _ in range(self.pick(0.4, 0.2, 0.2)):
            self.session.receive(rng.choice(self._pool), self.now)

    def frame(self, session: Session) -> bytes:  # noqa: ARG002
        return self.rng.choice(self._pool)

    def heard(self, session: Session, event: Event) -> None:  # noqa: ARG002
        if isinstance(event, Requested):
            self._calls.append(event.call)

    def act(self, session: Session) -> None:  # noqa: ARG002
        match self.pick(0.5, 0.35, 0.1):
            case 0:
                self._answer()
            case 1:
                self._ask()
            case 2:
                self.session.announce([data("a", 1)])
            case _:
                self.session.close()

    def _answer(self) -> None:
        if not self._calls:
            return
        call = self._calls.pop(int(self.rng.random() * len(self._calls)))
        match self.pick(0.7, 0.15):
            case 0:
                self.session.answer(call, [data("sum", 3)])
            case 1:
                self.session.answer(call, error="no")
            case _:
                self._calls.append(call)
                self.session.answer(call, [data("sum", 3)], seq=(1, 2))

    def _ask(self) -> None:
        flag = FlagType.INFO if self.rng.random() < 0.2 else FlagType.REQUEST
        if self.rng.random() < 0.2:
            self.session.request([data("a", 1)], flag=flag, seq=(1, 3))
        elif self.session.calls:
            self.session.request([data("a", 1)], flag=flag)
        else:  # ids that the pool answers
            self.session.request([data("a", 1)], flag=flag, number=1 + int(self.rng.random() * 5))

    def room(self, session: Session) -> int:  # noqa: ARG002
        return LIMIT + _HEAD

    def excess(self, session: Session) -> str:  # noqa: ARG002
        end, options = self.session, self.session.options
        found = {
            "calls": (end.calls, options.max_calls),
            "pending": (end.pending, options.max_requests),
            "gathering": (len(end._gathering), options.max_requests),
            "part bytes": (end._parts.held_bytes, options.max_part_bytes),
            "answer part bytes": (end._answers.held_bytes, options.max_part_bytes),
            "request bytes": (end._open_bytes if len(end._open) > 1 else 0, LIMIT),
        }
        return ", ".join(f"{name} {is_}" for name, (is_, most) in found.items() if is_ > most)

    def busy(self, session: Session) -> bool:  # noqa: ARG002
        return bool(self.session.calls or self.session.pending)


def make(rng: Random) -> Subject:
    """An ESNP session in some state."""
    return EsnpEnd(rng)
