"""An engine is a left fold: cutting the input, and saving the state in between, changes no row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wirelake.records.calls import CallsEngine
from wirelake.records.connections import ConnectionsEngine
from wirelake.records.deliveries import DeliveriesEngine
from wirelake.records.engine import Engine, EngineLimits, feed_event
from wirelake.records.rows import Event, Fact, Opened, in_order
from wirelake.records.schema import schema
from wirelake.records.tunnels import TunnelsEngine, tunnel_connection

from .row_batches import batch_from_rows
from .scenes import answer, as_set, ask, closed, events, fault, message, run, run_in_steps

ENGINES: dict[str, type[Engine[Any]]] = {
    "calls": CallsEngine,
    "deliveries": DeliveriesEngine,
    "connections": ConnectionsEngine,
    "tunnels": TunnelsEngine,
}
TINY = EngineLimits(
    connections=1,
    open_calls=1,
    answered_calls=2,
    deliveries=1,
    acknowledged=1,
    publications=1,
    tunnels=1,
    closed_tunnels=1,
)


def _tiny(engine: type[Engine[Any]]) -> type[Engine[Any]]:
    """The same with room for next to nothing."""

    class Tiny(engine):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__(TINY)

    return Tiny


ALL = [*ENGINES.values(), *map(_tiny, ENGINES.values())]


@given(found=events(), data=st.data())
def test_any_cut_gives_the_same_rows(found: list[Event], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(found)), max_size=4))
    for engine in ALL:
        assert as_set(run_in_steps(engine, found, cuts)) == as_set(run(engine(), found))


def test_every_cut_of_a_sequence_with_all_events() -> None:
    story = in_order(_story())
    for engine in ALL:
        whole = as_set(run(engine(), story))
        for cut in range(len(story) + 1):
            assert as_set(run_in_steps(engine, story, [cut])) == whole


def _story() -> Iterator[Event]:
    """Each thing that has to be remembered is followed by what shows that it was."""
    phone: dict[str, Any] = {"protocol": "comet", "connection": 2}
    yield ask(10, name="auth", client="ann", **phone)
    yield answer(11, name="auth_success", **phone)
    yield message(12, "push", name="message", ids=["m1", "m2"], **phone)
    yield fault(13, "c2s", connection=2)
    yield ask(14, name="message_ack", ids=["m1"], **phone)
    yield Fact(15, "publish", None, {"id": "m1", "topic": "@t"})
    yield closed(16, 2)
    yield ask(17, name="auth", client="ann", protocol="comet", connection=3)
    yield message(20, "handshake", name="syn", direction="c2s", fields={"resume_sid": b"s"})
    yield message(21, "handshake", name="ack")
    yield ask(22, 1)
    yield answer(23, 1)
    yield answer(24, 1)
    tunnel: dict[str, Any] = {"protocol": "relay", "connection": 8, "target": "7/1"}
    yield message(30, "control", name="tunnel_connect", **tunnel)
    inner: dict[str, Any] = {"protocol": "tny", "connection": tunnel_connection(7, 1)}
    yield ask(31, 5, tunnel_link=8, **inner)
    yield fault(32, connection=8)
    yield closed(33, 8)
    yield message(34, "control", name="tunnel_disconnect", **tunnel | {"connection": 9})
    yield message(35, "push", tunnel_link=9, **inner)
    yield message(36, "control", name="tunnel_connect", **tunnel | {"target": "7/2"})


@given(found=events())
def test_rows_fit_the_schema_of_their_table(found: list[Event]) -> None:
    for table, engine in ENGINES.items():
        rows = run(engine(), found)
        batch = batch_from_rows(table, rows)
        assert batch.schema == schema(table)
        assert batch.num_rows == len(rows)
        assert "outcome" not in batch.schema.names or batch.column("outcome").null_count == 0
        assert not rows or set(type(rows[0]).__struct_fields__) == set(batch.schema.names)


@given(found=events())
def test_after_the_end_no_state_is_kept(found: list[Event]) -> None:
    for engine in ALL:
        used = engine()
        run(used, found)
        assert used.state() == engine().state()


@given(found=events())
def test_a_saved_state_is_not_changed_by_later_events(found: list[Event]) -> None:
    first, later = found[: len(found) // 2], found[len(found) // 2 :]
    for engine in ENGINES.values():
        kept, other = engine(), engine()
        for event in first:
            feed_event(kept, event)
        state = kept.state()
        run(kept, later)
        other.restore(state)
        assert as_set(run(other, later)) == as_set(run(engine(), found))


def test_the_order_at_one_time() -> None:
    kinds = [type(each).__name__ for each in in_order(_one_of_each())]
    assert kinds == ["Opened", "Fact", "FaultRow", "MessageRow", "MessageRow", "Closed"]


def _one_of_each() -> list[Event]:
    return [closed(5), ask(5), answer(5), fault(5), Fact(5, "publish"), Opened(5, 1)]


def test_links_of_a_tunnel_at_one_time() -> None:
    found: list[Event] = [ask(5, 1, tunnel_link=link) for link in (9, 4)]
    assert in_order(found) == found[::-1]
