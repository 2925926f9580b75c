"""What is written down of calls, messages and notifications."""

from __future__ import annotations

from wirelake.traffic.live.journal import Journal


def test_a_call() -> None:
    journal = Journal()
    entry = journal.connection("esnp")
    call = journal.call(entry, "test/sleep", 7, started_ns=1_000, at_least_ns=500)
    assert (call.outcome, call.latency_min_ns) == ("open", None)
    call.answer("ok", 2_000)
    assert (call.outcome, call.latency_min_ns, call.latency_max_ns) == ("answered", 500, 1_000)
    lost = journal.call(entry, "test/sleep", 8, started_ns=1_000, at_least_ns=500)
    lost.lose()
    assert (lost.outcome, lost.cause, lost.latency_min_ns) == ("lost", "closed", None)
    journal.call(entry, "test/fail", 9, 0).answer("error", 5)
    journal.orphan(entry, "unsettled", "4")
    assert [each.outcome for each in journal.calls] == ["answered", "lost", "failed", "orphan"]


def test_messages_are_counted() -> None:
    entry = Journal().connection("magline")
    entry.sent("handshake", "syn")
    entry.sent("heartbeat", "pin", 2)
    entry.received("heartbeat", "pon", 2)
    assert entry.total(direction="c2s") == 3
    assert entry.total(kinds=("heartbeat",)) == 4
    assert entry.named("pin") == 2


def test_a_notification() -> None:
    journal = Journal()
    journal.delivered("comet", "anna", "m1", 10)
    journal.delivered("comet", "anna", "m1", 30)
    journal.acked("comet", "anna", "m1", 40)
    journal.acked("comet", "anna", "m1", 50)
    journal.ack_answered("comet", "anna", "m1", 45)
    journal.ack_answered("comet", "anna", "m1", 55)
    found = journal.deliveries["comet", "anna", "m1"]
    assert (found.sends, found.acks) == (2, 2)
    assert (found.first_seen_ns, found.ack_from_ns, found.ack_by_ns) == (10, 40, 45)
