"""A subscriber knows what is still to come, whoever hears of it first."""

from __future__ import annotations

from wirelake.traffic.live.journal import Journal
from wirelake.traffic.live.population import Subscriber, Topics


def test_the_publisher_first() -> None:
    subscriber = Subscriber()
    subscriber.expect("m1")
    assert subscriber.missing == {"m1"}
    subscriber.delivered("m1")
    assert not subscriber.missing


def test_the_push_first() -> None:
    subscriber = Subscriber()
    subscriber.delivered("m1")
    subscriber.expect("m1")
    assert not subscriber.missing
    subscriber.delivered("m1")  # once more: nobody expects it twice
    subscriber.reset()
    subscriber.expect("m1")
    assert subscriber.missing == {"m1"}


def test_topics_reach_present_subscribers() -> None:
    journal = Journal()
    topics = Topics(journal, ["@a", "@b"])
    here, gone, other = Subscriber(), Subscriber(), Subscriber()
    topics.enter("@a", here)
    topics.enter("@a", gone)
    topics.enter("@b", other)
    topics.leave(gone)
    topics.published("@a", "m1", started_ns=5, audience=2)
    assert (here.missing, gone.missing, other.missing) == ({"m1"}, set(), set())
    topics.published_to(("comet", "anna"), other, "m2", started_ns=6, audience=1)
    topics.published_to(("comet", "ben"), None, "m3", started_ns=7, audience=1)
    assert other.missing == {"m2"}
    assert journal.publications["m1"].topic == "@a"
    assert journal.publications["m3"].recipient == ("comet", "ben")
