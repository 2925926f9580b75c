"""What is written down of calls, messages and notifications."""

from __future__ import annotations

from wirelake.traffic.live.journal import Ledger


def test_a_call() -> None:
    ledger = Ledger()
    contact = ledger.contact("esnp")
    call = ledger.ask(contact, "test/sleep", 7, asked_ns=1_000, at_least_ns=500)
    assert (call.outcome, call.latency_min_ns) == ("open", None)
    call.answer("ok", 2_000)
    assert (call.outcome, call.latency_min_ns, call.latency_max_ns) == ("answered", 500, 1_000)
    lost = ledger.ask(contact, "test/sleep", 8, asked_ns=1_000, at_least_ns=500)
    lost.lose()
    assert (lost.outcome, lost.cause, lost.latency_min_ns) == ("lost", "closed", None)
    ledger.ask(contact, "test/fail", 9, 0).answer("error", 5)
    ledger.stray(contact, "unsettled", "4")
    assert [each.outcome for each in ledger.calls] == ["answered", "lost", "failed", "orphan"]


def test_messages_are_counted() -> None:
    contact = Ledger().contact("magline")
    contact.said("handshake", "syn")
    contact.said("heartbeat", "pin", 2)
    contact.heard("heartbeat", "pon", 2)
    assert contact.total(direction="c2s") == 3
    assert contact.total(kinds=("heartbeat",)) == 4
    assert contact.named("pin") == 2


def test_a_notification() -> None:
    ledger = Ledger()
    ledger.saw("anna", "m1", 10)
    ledger.saw("anna", "m1", 30)
    ledger.acked("anna", "m1", 40)
    ledger.acked("anna", "m1", 50)
    ledger.ack_answered("anna", "m1", 45)
    ledger.ack_answered("anna", "m1", 55)
    found = ledger.handed["anna", "m1"]
    assert (found.sends, found.acks) == (2, 2)
    assert (found.first_seen_ns, found.ack_from_ns, found.ack_by_ns) == (10, 40, 45)
