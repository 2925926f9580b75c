"""The checker accepts a history without faults, and notices each kind of violation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.hub.cluster.checker.history import Event
from tests.hub.cluster.checker.properties import violations

from wirelake.hub.pubsub.notifications import id_of

_FIRST = 378_413_478_051_900


def _id(at: int) -> str:
    return id_of(_FIRST + at)


def _event(kind: str, **values: Any) -> Event:
    return {"t": 0.0, "e": kind, **values}


def _dial(visit: int, protocol: str = "esnp") -> Event:
    return _event("dial", client="ann", visit=visit, url=f"{protocol}://127.0.0.1:1")


def _got(visit: int, at: int, content: str = "") -> Event:
    content = content or f"n{at}"
    return _event("deliver", client="ann", visit=visit, id=_id(at), content=content)


def _ack(at: int) -> Event:
    return _event("ack", client="ann", visit=1, id=_id(at))


def _stored(cursor: int, *holes: int, **changes: Any) -> Event:
    values = {"by": "hub1", "holder": "hub1", "valid": True, "spans": [], **changes}
    return _event(
        "stored",
        client="ann",
        cursor=_FIRST + cursor,
        holes=[_FIRST + each for each in holes],
        **values,
    )


def _published(at: int, to: str | None = None) -> list[Event]:
    topic = None if to else "@a"
    sent = _event("send", content=f"n{at}", topic=topic, to=to, key=False)
    return [sent, _event("confirm", content=f"n{at}", id=_id(at))]


_BEGIN = [
    _event("asks", client="ann", topics=["@a"]),
    _event("subscribed", client="ann", topics=["@a"]),
    *_published(1),
    *_published(2),
]
_END = _event("end")


def _rules(*events: Event) -> list[str]:
    return [each.rule for each in violations([*_BEGIN, *events])]


def test_repetitions_of_what_is_not_acknowledged_in_the_database_are_allowed() -> None:
    assert _rules(_dial(1), _got(1, 1), _dial(2), _got(2, 1), _got(2, 2), _END) == []
    answered = (_dial(1), _got(1, 1), _ack(1), _dial(2), _got(2, 1), _got(2, 2), _END)
    assert _rules(*answered) == []
    in_time = (_dial(1), _got(1, 1), _ack(1), _got(1, 2), _stored(2, 2), _dial(2), _got(2, 2))
    assert _rules(*in_time, _ack(2), _stored(2), _END) == []


def test_pushes_of_comet_may_come_before_its_backlog() -> None:
    events = (_dial(1, "comet"), _got(1, 2), _dial(2, "comet"), _got(2, 1), _END)
    assert _rules(*events) == []


@pytest.mark.parametrize(
    ("rule", "events"),
    [
        ("lost", [_dial(1), _got(1, 1), _END]),
        ("lost", [*_published(3, "ann"), _dial(1), _got(1, 1), _got(1, 2), _END]),
        ("invented", [_dial(1), _got(1, 1, "nothing")]),
        ("invented", [*_published(3, "bob"), _dial(1), _got(1, 3)]),
        ("twice", [_dial(1), _got(1, 3, "n1")]),
        ("twice", [_event("confirm", content="n1", id=_id(3))]),
        ("order", [_dial(1), _got(1, 2), _got(1, 1)]),
        ("order", [_dial(1), _got(1, 2), _dial(2), _got(2, 1)]),
        ("order", [_dial(1, "comet"), _got(1, 2), _got(1, 1)]),
        ("order", [_dial(1), _got(1, 1), _got(1, 1)]),
        ("acked", [_dial(1), _got(1, 1), _ack(1), _stored(1), _dial(2), _got(2, 1)]),
        ("forgotten", [_dial(1), _got(1, 1), _ack(1), _stored(1), _stored(1, 1)]),
        ("forgotten", [_dial(1), _got(1, 1), _ack(1), _stored(1), _stored(0)]),
        ("assumed", [_dial(1), _got(1, 1), _stored(1)]),
        ("assumed", [_stored(0, spans=[[_FIRST + 1, _FIRST + 2]])]),
        ("lease", [_stored(0, by="hub1", holder="hub2")]),
        ("lease", [_stored(0, by="hub1", holder=None)]),
        ("lease", [_stored(0, valid=False)]),
    ],
)
def test_each_kind_of_violation_is_noticed(rule: str, events: list[Event]) -> None:
    assert set(_rules(*events)) == {rule}
