"""Who subscribes knows what is still to come, whoever hears of it first."""

from __future__ import annotations

from wirelake.traffic.live.journal import Ledger
from wirelake.traffic.live.listeners import Listener, Topics


def test_the_publisher_first() -> None:
    listener = Listener()
    listener.expect("m1")
    assert listener.missing == {"m1"}
    listener.saw("m1")
    assert not listener.missing


def test_the_push_first() -> None:
    listener = Listener()
    listener.saw("m1")
    listener.expect("m1")
    assert not listener.missing
    listener.saw("m1")  # once more: nobody expects it twice
    listener.settle()
    listener.expect("m1")
    assert listener.missing == {"m1"}


def test_topics_tell_those_who_are_there() -> None:
    ledger = Ledger()
    topics = Topics(ledger, ["@a", "@b"])
    here, gone, other = Listener(), Listener(), Listener()
    topics.enter("@a", here)
    topics.enter("@a", gone)
    topics.enter("@b", other)
    topics.leave(gone)
    topics.published("@a", "m1", asked_ns=5, audience=2)
    assert (here.missing, gone.missing, other.missing) == ({"m1"}, set(), set())
    topics.published_to("anna", other, "m2", asked_ns=6, audience=1)
    topics.published_to("ben", None, "m3", asked_ns=7, audience=1)
    assert other.missing == {"m2"}
    assert ledger.publications["m1"].topic == "@a"
    assert ledger.publications["m3"].client == "ben"
