"""What `verify` keeps of a source for the tables across connections is all that they need."""

from __future__ import annotations

from hypothesis import given
from tests.records import scenes
from tests.records.scenes import answer, ask, message

from wirelake.lake.verify.replay import crossing
from wirelake.records import Event, Opened
from wirelake.records.deliveries import DeliveriesEngine


@given(scenes.events())
def test_deliveries_of_what_is_kept(events: list[Event]) -> None:
    kept = list(crossing(events, first=True))
    rows = [scenes.run(DeliveriesEngine(), each) for each in (events, kept)]
    assert scenes.as_set(rows[0]) == scenes.as_set(rows[1])


def test_the_answer_to_a_sign_on_is_kept() -> None:
    events: list[Event] = [
        Opened(0, 1, "esnp"),
        ask(1, 7, target="hub/auth", client="ann"),
        answer(2, 7),
        ask(3, 8, target="test/echo"),
        answer(4, 8),
        message(5, "event", target="hub/notify", ids=["m1"], direction="s2c"),
    ]
    kept = list(crossing(events, first=True))
    assert [event.ts_ns for event in kept] == [0, 1, 2, 5]
    (row,) = scenes.run(DeliveriesEngine(), kept)
    assert row.client == "ann"
