"""What the hub relies on: the same operations have the same results in every database."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from wirelake.hub.errors import HubError
from wirelake.hub.numbers import next_number
from wirelake.hub.store.interface import (
    LOOKED_AT,
    AddAccount,
    AddDeadLetters,
    Appended,
    Delete,
    DeleteAcked,
    Entry,
    ExpireKeys,
    InboxRow,
    KeyRow,
    NewKey,
    Operation,
    PruneDeadLetters,
    Redrive,
    RemoveAccount,
    RemoveKeys,
    RemoveTopics,
    RotateAccount,
    SaveInboxes,
    SaveTransient,
    SetChecks,
    Source,
    Subscribed,
    SubscriberRow,
    SubscriptionRow,
    Unsubscribe,
)

from .databases import DAY_MS, NOW_MS, Box, publish, subscribe

MOST = 1 << 60


def key(name: str, publisher: str = "ann", digest: bytes = b"digest", **more: Any) -> NewKey:
    values = {"expires_ms": NOW_MS + DAY_MS, "allowed": True, **more}
    return NewKey(publisher, name, digest, **values)


def code(result: Any) -> str:
    assert isinstance(result, HubError), result
    return result.code


# -- publishing ------------------------------------------------------------------------------------


def test_an_empty_store(box: Box) -> None:
    database = box.database
    assert database.write([]) == []
    assert database.last_number() == database.last_transient() == 0
    assert database.client("ann") is database.topic("@a") is database.user(b"x") is None
    assert database.accounts("client") == database.accounts("user") == database.temporary() == []
    assert database.clients_with([]) == database.clients_with(["ann"]) == []
    assert database.client_page(0, 10) == database.topic_page(0, 10) == (0, [])
    assert database.topics(0, 10) == database.numbers([], MOST, 10) == database.entries([]) == []
    assert database.count([], MOST) == database.count([Source(1, 0)], MOST) == 0
    assert database.expired(MOST, 10) == database.due(1, 10) == database.checks(1) == []
    assert database.lagging(1, MOST, 0, 10) == ([], 0)
    assert database.key_counts() == database.dead(10) == []
    assert database.needed(1, 0, 10) == (0, None)
    assert database.targets([]) == database.targets([5]) == {}
    assert database.has_removed_topics() is False
    assert database.load_client(1) == (None, None, [])
    assert database.size().database > 0
    database.check()
    assert database.shrink() is False


def test_a_publish_is_appended_for_the_subscribers_of_its_topic(box: Box) -> None:
    box.client("ann", "@a")
    box.client("bob", "@a", "@b")
    (result,) = box.write(publish("@a", b"\0\xff"))
    first = next_number(0, NOW_MS)
    assert result == Appended(first, box.topic("@a"), 2, due=False)
    assert box.database.entries([first, first + 1]) == [
        Entry(first, box.topic("@a"), 7, NOW_MS, NOW_MS + DAY_MS, "@a", b"\0\xff")
    ]
    topic = box.database.topic("@a")
    assert topic is not None
    assert topic[1:] == ("@a", 2, 1)
    assert box.database.last_number() == first


def test_numbers_ascend_also_of_what_nobody_needs(box: Box) -> None:
    box.client("ann", "@a")
    results = box.write(
        publish("@a"), publish("@nobody"), publish("@a", ts_ms=NOW_MS - 5_000), publish("@a")
    )
    first = next_number(0, NOW_MS)
    assert [each.number for each in results] == [first, first + 1, first + 2, first + 3]
    assert results[1] == Appended(first + 1, 0, 0, due=False)
    assert box.stored(box.topic("@a")) == [first, first + 2, first + 3]
    later = box.published(publish("@a", ts_ms=NOW_MS + 1_000))
    assert later == [next_number(first + 3, NOW_MS + 1_000)]
    assert box.another().last_number() == later[0]


def test_a_publish_for_a_client(box: Box) -> None:
    ann = box.client("ann")
    results = box.write(publish(to="ann"), publish(to="bob"), publish(to="x\0y"), publish("@a"))
    assert results[0] == Appended(next_number(0, NOW_MS), -ann, 1, due=False)
    assert [code(each) for each in results[1:3]] == ["not_found"] * 2
    assert results[3].number == results[0].number + 1
    assert box.database.entries(box.stored(-ann))[0].topic is None


def test_a_publish_that_is_not_stored_has_its_key(box: Box) -> None:
    ann = box.client("ann", "@a")
    results = box.write(
        publish("@a", expires_ms=0, key=key("k"), audience=5),
        publish(to="ann", expires_ms=0, key=key("p"), audience=1),
        publish(to="nobody", expires_ms=0, audience=1),
    )
    assert code(results.pop()) == "not_found"
    assert [each.audience for each in results] == [5, 1]
    assert [each.target for each in results] == [0, 0]
    assert box.stored(box.topic("@a")) == box.stored(-ann) == []
    assert box.database.key_counts() == [("ann", 2)]
    again = box.one(publish("@a", key=key("k")))
    assert isinstance(again, KeyRow)
    assert (again.number, again.audience) == (results[0].number, 5)


@pytest.mark.parametrize("name", ["k", "zero\0inside", "ключ 🗝", ""])
def test_a_key_is_used_once(box: Box, name: str) -> None:
    box.client("ann", "@a")
    first, second = box.write(publish("@a", key=key(name)), publish("@a", b"x", key=key(name)))
    expected = KeyRow("ann", name, b"digest", first.number, False, 1, NOW_MS + DAY_MS)
    assert second == expected
    # In another transaction, also for a publisher that may not have another.
    assert box.one(publish("@a", key=key(name, digest=b"other", allowed=False))) == expected
    assert len(box.stored(box.topic("@a"))) == 1
    # Another publisher has keys of its own.
    assert isinstance(box.one(publish("@a", key=key(name, "bob"))), Appended)
    assert isinstance(box.one(publish("@a", key=key(name, ""))), Appended)
    assert sorted(box.database.key_counts()) == [("", 1), ("ann", 1), ("bob", 1)]


def test_a_key_that_has_expired_is_new(box: Box) -> None:
    first = box.one(publish("@a", key=key("k", expires_ms=NOW_MS + 10)))
    assert isinstance(box.one(publish("@a", key=key("k"), ts_ms=NOW_MS + 9)), KeyRow)
    second = box.one(publish("@a", key=key("k"), ts_ms=NOW_MS + 10))
    assert isinstance(second, Appended)
    assert second.number > first.number
    assert box.database.key_counts() == [("ann", 1)]


def test_a_key_that_is_not_allowed_stores_nothing(box: Box) -> None:
    box.client("ann", "@a")
    refused, stored = box.write(publish("@a", key=key("k", allowed=False)), publish("@a"))
    assert code(refused) == "too_busy"
    assert box.stored(box.topic("@a")) == [stored.number]
    assert box.database.key_counts() == []


def test_a_key_of_a_private_publish(box: Box) -> None:
    box.client("ann")
    first = box.one(publish(to="ann", key=key("k")))
    assert box.one(publish(to="ann", key=key("k"))) == KeyRow(
        "ann", "k", b"digest", first.number, True, 1, NOW_MS + DAY_MS
    )
    assert code(box.one(publish(to="nobody", key=key("other")))) == "not_found"
    assert box.database.key_counts() == [("ann", 1)]


def test_keys_are_removed_and_expire(box: Box) -> None:
    names = [f"k{n}" for n in range(5)]
    box.write(
        *(publish("@a", key=key(n, expires_ms=NOW_MS + i)) for i, n in enumerate(names)),
        *(publish("@a", key=key(n, "bob", expires_ms=NOW_MS + 100)) for n in names),
    )
    assert box.one(ExpireKeys(NOW_MS - 1, 10)) == {}
    assert box.one(ExpireKeys(NOW_MS + 3, 2)) == {"ann": 2}
    assert box.one(ExpireKeys(NOW_MS + 3, 10)) == {"ann": 2}
    assert sorted(box.database.key_counts()) == [("ann", 1), ("bob", 5)]
    # In order with the publishes around it.
    before, _, after = box.write(
        publish("@a", key=key("x", "bob")), RemoveKeys("bob"), publish("@a", key=key("k0", "bob"))
    )
    assert isinstance(before, Appended)
    assert isinstance(after, Appended)
    assert sorted(box.database.key_counts()) == [("ann", 1), ("bob", 1)]


def test_many_publishes_in_one_batch(box: Box) -> None:
    clients = [box.client(f"c{n}", f"@t{n % 3}") for n in range(6)]
    operations = [
        publish(f"@t{n % 4}", b"%d" % n, key=key(f"k{n}") if n % 5 == 0 else None)
        if n % 7
        else publish(to=f"c{n % 6}", content=b"%d" % n)
        for n in range(2_000)
    ]
    results = box.write(*operations)
    numbers = [each.number for each in results]
    assert numbers == sorted(set(numbers))
    sources = [Source(box.topic(f"@t{n}"), 0) for n in range(3)]
    sources += [Source(-client, 0) for client in clients]
    stored = [each.number for each in results if each.target]
    assert box.database.numbers(sources, MOST, 10_000) == stored
    assert box.database.numbers(sources, stored[9], 5) == stored[:5]
    assert box.database.numbers(sources, stored[9], 100) == stored[:10]
    assert box.database.count(sources, stored[99]) == 100
    entries = box.database.entries(stored)
    assert [each.content for each in entries] == [
        b"%d" % n for n, each in enumerate(results) if each.target
    ]
    assert box.database.targets(stored[:3]) == {
        each.number: each.target for each in results if each.number in stored[:3]
    }


def test_expired_rows_by_their_expiry(box: Box) -> None:
    box.client("ann", "@a")
    numbers = box.published(*(publish("@a", expires_ms=NOW_MS + at) for at in (30, 10, 20)))
    topic = box.topic("@a")
    assert box.database.expired(NOW_MS + 9, 10) == []
    assert box.database.expired(NOW_MS + 20, 10) == [(numbers[1], topic), (numbers[2], topic)]
    assert box.database.expired(MOST, 1) == [(numbers[1], topic)]


def test_values_of_64_bits(box: Box) -> None:
    box.client("ann", "@a")
    top = (1 << 63) - 1
    results = box.write(publish("@a", ts_ms=NOW_MS, expires_ms=top, key=key("k", expires_ms=top)))
    (entry,) = box.database.entries([results[0].number])
    assert entry.expires_ms == top
    known = box.one(publish("@a", key=key("k")))
    assert known.expires_ms == top
    box.write(SaveTransient(top))
    assert box.database.last_transient() == top


# -- subscriptions ---------------------------------------------------------------------------------


def test_a_subscription_starts_behind_what_was_appended(box: Box) -> None:
    ann = box.client("ann", "@a")
    bob = box.client("bob")
    before, subscribed, after = box.write(
        publish("@a"), subscribe(bob, "@b", "@a", "@b"), publish("@a")
    )
    assert subscribed == Subscribed(
        bob,
        [
            SubscriptionRow(box.topic("@b"), "@b", before.number, True),
            SubscriptionRow(box.topic("@a"), "@a", before.number, True),
        ],
    )
    assert (before.audience, after.audience) == (1, 2)
    loaded = box.database.load_client(bob)
    assert (loaded.row, loaded.inbox) == (box.database.client("bob"), None)
    assert sorted(loaded.subscriptions) == sorted(subscribed.rows)
    assert [each.client for each in box.database.lagging(box.topic("@a"), MOST, 0, 10).rows] == [
        ann,
        bob,
    ]


def test_subscribing_again_changes_only_ack(box: Box) -> None:
    ann = box.client("ann", "@a")
    box.published(publish("@a"))
    again = box.one(subscribe(ann, "@a", ack=False))
    assert again.rows == [SubscriptionRow(box.topic("@a"), "@a", 0, False)]
    assert box.database.load_client(ann).subscriptions == again.rows
    twice = box.write(subscribe(ann, "@a"), subscribe(ann, "@a", ack=False))
    assert [each.rows[0].ack for each in twice] == [True, False]
    assert box.database.load_client(ann).subscriptions[0].ack is False
    topic = box.database.topic("@a")
    assert topic is not None
    assert topic.subscribers == 1


def test_a_connection_without_sign_on_gets_a_client(box: Box) -> None:
    subscribed = box.one(subscribe(0, "@a", id_="~1"))
    number = subscribed.client
    assert number > 0
    row = box.database.client("~1")
    assert row is not None
    assert (row.number, row.token) == (number, b"")
    assert box.database.temporary() == ["~1"]
    assert box.database.accounts("client") == []
    assert box.one(publish("@a")).audience == 1
    assert box.one(publish(to="~1")).target == -number
    assert box.database.client_page(0, 10)[0] == 1
    assert box.one(RemoveAccount("client", "~1")) is True
    assert box.database.temporary() == []
    assert box.database.topic("@a") is None
    assert box.one(subscribe(0, "@a", id_="~1")).client > number


def test_refused_subscriptions_leave_nothing(box: Box) -> None:
    ann = box.client("ann", "@a", "@b")
    gone, many, fits = box.write(
        subscribe(ann + 100, "@x"),
        subscribe(ann, "@a", "@c", "@d", most=3),
        subscribe(ann, "@a", "@c", most=3),
    )
    assert (code(gone), code(many)) == ("auth_required", "too_busy")
    assert [each.name for each in fits.rows] == ["@a", "@c"]
    assert code(box.one(subscribe(0, "@d", id_="~1", most=3))) == "too_busy"
    assert box.database.temporary() == []
    assert box.database.topic("@x") is box.database.topic("@d") is None
    # No new topic: the number of topics may be over a limit that was lowered.
    assert isinstance(box.one(subscribe(ann, "@a", most=1)), Subscribed)
    assert box.database.topic_page(0, 10)[0] == 3


def test_many_subscriptions_in_one_batch(box: Box) -> None:
    clients = box.write(*(AddAccount("client", f"c{n}", b"x", NOW_MS) for n in range(50)))
    results = box.write(
        *(
            subscribe(client, *(f"@t{(n + m) % 9}" for m in range(3)))
            for n, client in enumerate(clients)
        ),
        *(subscribe(0, "@t0", f"@own{n}", id_=f"~{n}") for n in range(5)),
    )
    assert len({each.client for each in results}) == 55
    count, topics = box.database.topic_page(0, 100)
    assert count == 14
    assert {each.name: each.subscribers for each in topics}["@t0"] == 16 + 5
    assert sum(each.subscribers for each in topics) == 50 * 3 + 10
    assert box.database.topics(topics[4].number, 3) == [each.number for each in topics[5:8]]
    assert box.database.topic_page(12, 100) == (14, topics[12:])
    assert box.database.client_page(53, 10)[0] == 55
    assert [each.id for each in box.database.client_page(1, 2)[1]] == ["c1", "c2"]


def test_names_in_any_script(box: Box) -> None:
    name = "@новости/新闻"
    ann = box.client("Анна 🌊", name)
    assert box.one(publish(name)).audience == 1
    row = box.database.client("Анна 🌊")
    assert row is not None
    assert row.number == ann
    assert box.database.entries(box.stored(box.topic(name)))[0].topic == name
    assert box.database.client("x\0") is None
    assert box.database.topic("x\0") is None


def test_a_topic_without_subscribers_is_removed_and_its_rows_later(box: Box) -> None:
    ann = box.client("ann", "@a", "@b")
    bob = box.client("bob", "@b")
    old = box.topic("@a")
    numbers = box.published(*(publish("@a") for _ in range(5)), publish("@b"))
    none, after = box.write(Unsubscribe(ann, (old, box.topic("@b"), 99)), publish("@a"))
    assert none is None
    assert after.audience == 0
    assert box.database.topic("@a") is None
    assert box.one(publish("@b")).audience == 1
    assert box.database.load_client(ann).subscriptions == []
    assert box.stored(old) == numbers[:5]
    assert [box.one(RemoveTopics(2)) for _ in range(4)] == [2, 2, 1, 0]
    assert box.stored(old) == []
    # A topic with the same name is another one.
    assert box.one(subscribe(bob, "@a")).rows[0].topic > old
    assert box.write(RemoveTopics(0), RemoveTopics(10)) == [0, 0]


def test_unsubscribing_twice_counts_once(box: Box) -> None:
    ann, bob = box.client("ann", "@a"), box.client("bob", "@a")
    topic = box.topic("@a")
    box.write(Unsubscribe(ann, (topic, topic)), Unsubscribe(ann, (topic,)), Unsubscribe(7, ()))
    row = box.database.topic("@a")
    assert row is not None
    assert row.subscribers == 1
    first, _, second = box.write(
        subscribe(ann, "@a"), Unsubscribe(ann, (topic,)), Unsubscribe(bob, (topic,))
    )
    assert isinstance(first, Subscribed)
    assert second is None
    assert box.database.topic("@a") is None


# -- inboxes, acknowledgements ---------------------------------------------------------------------


def test_inboxes_are_saved_for_clients_that_exist(box: Box) -> None:
    ann, bob = box.client("ann"), box.client("bob")
    rows = [InboxRow(ann, 5, b"\0state", 3), InboxRow(ann, 6, b"", 4), InboxRow(99, 1, b"", 1)]
    assert box.write(SaveInboxes(tuple(rows)), SaveInboxes(())) == [(), ()]
    assert box.database.load_client(ann).inbox == rows[1]
    assert box.database.load_client(99).inbox is box.database.load_client(bob).inbox is None
    box.write(SaveInboxes((rows[0],)), SaveInboxes((InboxRow(bob, 1, b"b", 0),)))
    assert box.database.load_client(ann).inbox == rows[0]
    # In order with a removal.
    box.write(RemoveAccount("client", "bob"), SaveInboxes((InboxRow(bob, 2, b"", 0),)))
    assert box.database.load_client(bob).inbox is None


def test_who_needs_what(box: Box) -> None:
    first = box.client("first", "@a")
    box.published(publish("@a"))
    second, third = box.client("second", "@a"), box.client("third", "@a")
    numbers = box.published(*(publish("@a") for _ in range(4)))
    topic = box.topic("@a")
    start = numbers[0] - 1
    box.write(SaveInboxes((InboxRow(third, numbers[2], b"s", numbers[3]),)))
    rows = [
        SubscriberRow(first, 0, 0, b""),
        SubscriberRow(second, start, 0, b""),
        SubscriberRow(third, start, numbers[2], b"s"),
    ]
    assert box.database.lagging(topic, numbers[2], 0, 10) == (rows[:2], 0)
    assert box.database.lagging(topic, start, 0, 10) == (rows[:1], 0)
    assert box.database.lagging(topic, MOST, first, 1) == (rows[1:2], second)
    assert box.database.lagging(topic, MOST, second, 9) == (rows[2:], 0)
    assert box.database.needed(topic, 0, 10) == (0, 1)
    assert box.database.needed(topic, first, 1) == (second, numbers[0])
    assert box.database.needed(topic, second, 9) == (0, numbers[3])
    assert box.database.needed(topic, third, 9) == (0, None)


def test_one_read_looks_at_some_of_many_subscribers(box: Box) -> None:
    """Of a million, perhaps the last one lags behind."""
    names = [f"c{number}" for number in range(LOOKED_AT + 2)]
    clients: list[int] = box.write(*(AddAccount("client", name, b"t", 0) for name in names))
    box.write(*(subscribe(number, "@a") for number in clients))
    (number,) = box.published(publish("@a"))
    box.write(SaveInboxes(tuple(InboxRow(each, number, b"", number + 1) for each in clients[:-1])))
    topic = box.topic("@a")
    assert box.database.lagging(topic, number, 0, 10) == ([], clients[LOOKED_AT - 1])
    rows, after = box.database.lagging(topic, number, clients[LOOKED_AT - 1], 10)
    assert ([each.client for each in rows], after) == (clients[-1:], 0)


def test_rows_are_deleted(box: Box) -> None:
    ann = box.client("ann", "@a")
    numbers = box.published(*(publish("@a") for _ in range(10)), publish(to="ann"))
    topic = box.topic("@a")
    assert box.write(Delete((numbers[0], numbers[0], 12345)), Delete(())) == [None, None]
    assert box.one(DeleteAcked(topic, numbers[5], 3)) == 3
    assert box.stored(topic) == numbers[4:10]
    assert box.write(DeleteAcked(topic, numbers[5], 3), DeleteAcked(topic, numbers[5], 3)) == [1, 0]
    assert box.stored(-ann) == numbers[10:]
    assert box.one(DeleteAcked(-ann, MOST, 3)) == 1
    # In order with a publish.
    _, published, deleted = box.write(
        Delete(tuple(numbers)), publish("@a"), DeleteAcked(topic, MOST, 100)
    )
    assert deleted == 1
    assert box.stored(topic) == []
    assert published.number == box.database.last_number()


def test_backlogs_that_are_due(box: Box) -> None:
    ann = box.one(AddAccount("client", "ann", b"x", NOW_MS))
    bob = box.one(AddAccount("client", "bob", b"x", NOW_MS))
    box.write(subscribe(ann, "@a", allowance=2), subscribe(bob, "@a", allowance=5))
    topic = box.topic("@a")
    assert [each.due for each in box.write(publish("@a"), publish("@a"))] == [False, False]
    assert box.database.due(topic, 10) == []
    assert box.database.checks(ann) == [(topic, 2, 3)]
    assert box.database.checks(bob) == [(topic, 2, 6)]
    assert box.one(publish("@a")).due is True
    assert box.database.due(topic, 10) == [ann]
    box.published(*(publish("@a") for _ in range(5)))
    assert sorted(box.database.due(topic, 10)) == [ann, bob]
    assert len(box.database.due(topic, 1)) == 1
    box.write(SetChecks(((ann, topic, 5), (bob, topic, 5), (bob, topic, 9), (99, topic, 1))))
    assert box.database.due(topic, 10) == [ann]
    assert box.database.checks(bob) == [(topic, 8, 9)]
    assert box.write(publish("@a"), SetChecks(((ann, topic, 10),)))[0].due is True
    assert box.database.due(topic, 10) == [bob]


# -- dead letters ----------------------------------------------------------------------------------


def test_dead_letters(box: Box) -> None:
    ann, bob = box.client("ann", "@a"), box.client("bob", "@a")
    first, second, private = box.published(
        publish("@a", b"1"), publish("@a", b"2"), publish(to="ann")
    )
    letters = ((ann, first, "quota", 10), (bob, first, "expired", 20), (ann, 777, "quota", 30))
    assert box.one(AddDeadLetters(letters, (first,))) == 2
    assert box.stored(box.topic("@a")) == [second]
    assert box.write(
        AddDeadLetters(((ann, second, "quota", 40), (ann, second, "quota", 41))),
        AddDeadLetters(((ann, second, "expired", 50), (ann, private, "x", 60)), (private,)),
        AddDeadLetters((), (second,)),
    ) == [1, 1, 0]
    rows = box.database.dead(10)
    assert [(each.client, each.number, each.reason, each.dead_ms) for each in rows] == [
        ("ann", private, "x", 60),
        ("ann", second, "quota", 40),
        ("bob", first, "expired", 20),
        ("ann", first, "quota", 10),
    ]
    assert rows[3][6:] == (7, NOW_MS, "@a", b"1")
    assert (rows[0].topic, rows[0].client_number) == (None, ann)
    assert box.database.dead(1) == rows[:1]
    assert box.database.dead(10, bob) == [rows[2]]
    assert box.database.dead(10, None, [first, 5]) == [rows[2], rows[3]]
    assert box.database.dead(10, ann, [first]) == [rows[3]]
    assert box.database.dead(10, None, []) == []


def test_dead_letters_of_rows_that_were_deleted_in_the_same_batch(box: Box) -> None:
    ann = box.client("ann", "@a")
    (number,) = box.published(publish("@a"))
    assert box.write(Delete((number,)), AddDeadLetters(((ann, number, "quota", 1),))) == [None, 0]
    assert box.database.dead(10) == []


def test_dead_letters_of_what_is_not_in_the_log(box: Box) -> None:
    ann, bob = box.client("ann", "@a"), box.client("bob", "@a")
    (number,) = box.published(publish("@a"))
    assert box.one(AddDeadLetters(((ann, number, "quota", 1), (999, number, "quota", 1)))) == 1
    box.one(Delete((number,)))
    # Its content is still there, for the other client.
    assert box.one(AddDeadLetters(((bob, number, "quota", 2),))) == 0
    assert [each.client for each in box.database.dead(10)] == ["ann"]
    box.one(RemoveAccount("client", "ann"))
    (other,) = box.published(publish("@a"))
    assert box.one(AddDeadLetters(((999, other, "quota", 3),))) == 0
    # No content without a dead letter: with one of a new client it would come back.
    assert box.database.dead(10) == []


def test_a_private_notification_that_becomes_a_dead_letter_is_deleted(box: Box) -> None:
    ann, bob = box.client("ann", "@a"), box.client("bob", "@a")
    private, other, shared = box.published(publish(to="ann"), publish(to="ann"), publish("@a"))
    letters = ((ann, private, "quota", 1), (bob, other, "quota", 1), (ann, shared, "quota", 1))
    assert box.one(AddDeadLetters(letters)) == 3
    assert box.stored(-ann) == [other]
    assert box.stored(box.topic("@a")) == [shared]
    assert [each.content for each in box.database.dead(10, ann)] == [b"content"] * 2


def test_redriving(box: Box) -> None:
    ann, bob = box.client("ann", "@a"), box.client("bob", "@a")
    first, second = box.published(publish("@a", b"1"), publish("@a", b"2"))
    box.write(
        AddDeadLetters(((ann, second, "r", 20), (bob, first, "r", 15)), ()),
        AddDeadLetters(((ann, first, "r", 10),), (first, second)),
    )
    places = {(each.client, each.number): each.place for each in box.database.dead(10)}
    wanted = (places["ann", second], 12345, places["ann", first])
    last = box.database.last_number()
    redriven = box.one(Redrive(wanted, NOW_MS + 5, NOW_MS + 6))
    assert [each.client for each in redriven] == ["ann", "ann"]
    assert [each.entry for each in redriven] == [
        Entry(last + 1, -ann, 7, NOW_MS, NOW_MS + 6, "@a", b"1"),
        Entry(last + 2, -ann, 7, NOW_MS, NOW_MS + 6, "@a", b"2"),
    ]
    assert box.database.entries([last + 1, last + 2]) == [each.entry for each in redriven]
    assert [each.client for each in box.database.dead(10)] == ["bob"]
    assert box.write(Redrive(wanted, NOW_MS, NOW_MS), Redrive((), NOW_MS, NOW_MS)) == [[], []]
    # The content that another dead letter has is kept.
    assert box.database.dead(10)[0].content == b"1"
    assert box.database.last_number() == last + 2


def test_pruning_dead_letters(box: Box) -> None:
    ann = box.client("ann", "@a")
    numbers = box.published(*(publish("@a") for _ in range(6)))
    box.write(AddDeadLetters(tuple((ann, number, "r", at) for at, number in enumerate(numbers))))
    assert box.one(PruneDeadLetters(2, 100)) is None
    assert [each.number for each in box.database.dead(10)] == numbers[:1:-1]
    box.write(PruneDeadLetters(0, 3), PruneDeadLetters(0, 2))
    assert [each.number for each in box.database.dead(10)] == numbers[:3:-1]
    box.write(PruneDeadLetters(0, 0))
    assert box.database.dead(10) == []


# -- accounts --------------------------------------------------------------------------------------


def test_accounts(box: Box) -> None:
    added = box.write(
        AddAccount("client", "bob", b"b", 5, 50),
        AddAccount("client", "ann", b"a", 6),
        AddAccount("user", "ann", b"u", 7, 70, "viewer"),
        AddAccount("client", "bob", b"c", 8),
    )
    assert added[:3] == [1, 2, 0]
    assert code(added[3]) == "conflict"
    assert code(box.one(AddAccount("user", "ann", b"v", 9))) == "conflict"
    assert [each[:5] for each in box.database.accounts("client")] == [
        (2, "ann", b"a", 6, 0),
        (1, "bob", b"b", 5, 50),
    ]
    (user,) = box.database.accounts("user")
    assert user == box.database.user(b"u")
    assert user[:5] == ("ann", "viewer", b"u", 7, 70)
    assert {each.id for each in box.database.clients_with(["ann", "bob", "x", "ann"])} == {
        "ann",
        "bob",
    }


@pytest.mark.parametrize("kind", ["client", "user"])
def test_rotating(box: Box, kind: Any) -> None:
    box.write(AddAccount(kind, "ann", b"1", 0, 1_000), AddAccount(kind, "bob", b"b", 0))
    known, unknown = box.write(
        RotateAccount(kind, "ann", b"2", 2_000, 5_000), RotateAccount(kind, "x\0", b"2", 0, 0)
    )
    assert (known, unknown) == (True, False)
    row = box.database.accounts(kind)[0]
    assert (row.token, row.expires_ms, row.old_token, row.old_expires_ms) == (
        b"2",
        2_000,
        b"1",
        1_000,
    )
    box.write(RotateAccount(kind, "ann", b"3", 0, 1_500), RotateAccount(kind, "bob", b"c", 0, 0))
    row, other = box.database.accounts(kind)
    assert (row.token, row.expires_ms, row.old_token, row.old_expires_ms) == (b"3", 0, b"2", 1_500)
    assert (other.token, other.old_token) == (b"c", b"")
    if kind == "user":
        assert box.database.user(b"2") == box.database.user(b"3") == row
        assert box.database.user(b"1") is None


def test_a_removed_client_leaves_nothing(box: Box) -> None:
    ann = box.client("ann", "@a", "@b")
    bob = box.client("bob", "@b")
    numbers = box.published(
        publish("@a"), publish("@b"), publish(to="ann"), publish(to="ann"), publish(to="bob")
    )
    box.write(
        publish("@b", key=key("k")),
        SaveInboxes((InboxRow(ann, 1, b"", 1),)),
        AddDeadLetters(((ann, numbers[0], "r", 1), (bob, numbers[1], "r", 1))),
    )
    old = box.topic("@a")
    assert box.write(
        RemoveAccount("client", "ann"), RemoveAccount("client", "ann"), RemoveAccount("user", "ann")
    ) == [True, False, False]
    assert box.database.client("ann") is box.database.topic("@a") is None
    assert box.database.load_client(ann) == (None, None, [])
    assert box.database.has_removed_topics() is True
    assert box.database.key_counts() == []
    assert [each.client for each in box.database.dead(10)] == ["bob"]
    assert box.one(publish("@b")).audience == 1
    assert code(box.one(publish(to="ann"))) == "not_found"
    assert box.one(RemoveTopics(100)) == 3
    assert box.stored(old) == box.stored(-ann) == []
    assert box.stored(-bob) == numbers[4:]
    assert box.database.client_page(0, 10)[0] == 1
    again = box.client("ann")
    assert again > bob
    assert box.database.load_client(again).subscriptions == []


def test_an_account_and_what_needs_it_in_one_batch(box: Box) -> None:
    number, to_it, removed, to_nobody, again = box.write(
        AddAccount("client", "ann", b"a", 0),
        publish(to="ann"),
        RemoveAccount("client", "ann"),
        publish(to="ann"),
        AddAccount("client", "ann", b"b", 0),
    )
    assert to_it.target == -number
    assert removed is True
    assert code(to_nobody) == "not_found"
    assert again > number


def test_an_unknown_token_is_nobodys(box: Box) -> None:
    box.write(AddAccount("user", "ann", b"a", 0, role="viewer"))
    assert box.database.user(b"") is None


LONE = "\ud800"


def test_text_that_is_not_unicode_fails_no_batch(box: Box) -> None:
    """Names and keys come from peers, and a batch has those of many."""
    ann = box.client("ann", "@a")
    results = box.write(
        publish("@a"),
        publish(to=LONE),
        publish("@" + LONE),
        publish("@a", key=key(LONE)),
        publish("@a", key=key(LONE)),
        RotateAccount("client", LONE, b"", 0, 0),
        RemoveAccount("client", LONE),
        RemoveAccount("user", LONE),
    )
    assert code(results[1]) == "not_found"
    assert results[2].audience == 0
    again = results[4]
    assert isinstance(again, KeyRow)
    assert (again.key, again.number) == (LONE, results[3].number)
    assert results[5:] == [False, False, False]
    assert box.stored(box.topic("@a")) == [results[0].number, results[3].number]
    found = box.one(publish("@a", key=key(LONE)))
    assert found == again
    assert box.database.client(LONE) is box.database.topic(LONE) is None
    assert [each.number for each in box.database.clients_with([LONE, "ann"])] == [ann]


def test_two_subscriptions_of_a_connection_without_sign_on(box: Box) -> None:
    first, second = box.write(
        subscribe(0, "@a", id_="~1"), subscribe(0, "@a", "@b", id_="~1", ack=False)
    )
    assert first.client == second.client
    assert box.database.client_page(0, 10)[0] == 1
    assert box.one(subscribe(0, "@c", id_="~1")).client == first.client
    topic = box.database.topic("@a")
    assert topic is not None
    assert topic.subscribers == 1
    assert box.one(RotateAccount("client", "~1", b"token", 0, 0)) is False
    assert box.database.temporary() == ["~1"]


# -- transactions ----------------------------------------------------------------------------------


class Unknown(Operation[None], frozen=True):
    """No database can execute it."""


def test_a_batch_that_fails_leaves_nothing(box: Box) -> None:
    ann = box.client("ann", "@a")
    (last,) = box.published(publish("@a", key=key("k")))
    with pytest.raises((HubError, KeyError)):
        box.write(
            publish("@a", key=key("other")),
            subscribe(ann, "@new"),
            AddAccount("client", "bob", b"b", 0),
            Delete((last,)),
            AddDeadLetters(((ann, last, "r", 1),)),
            Unknown(),
        )
    box.database = box.another()
    assert box.stored(box.topic("@a")) == [last]
    assert box.database.last_number() == last
    assert box.database.topic("@new") is box.database.client("bob") is None
    assert box.database.dead(10) == []
    assert box.database.key_counts() == [("ann", 1)]
    assert box.database.topic_page(0, 10)[0] == 1
    # The next one succeeds.
    assert box.published(publish("@a")) == [last + 1]


def test_a_value_that_does_not_fit_is_an_error_and_stores_nothing(box: Box) -> None:
    box.client("ann", "@a")
    with pytest.raises(HubError) as caught:
        box.write(publish("@a"), publish("@a", expires_ms=1 << 63))
    assert caught.value.code == "storage_failed"
    assert caught.value.__cause__ is not None
    box.database = box.another()
    assert box.stored(box.topic("@a")) == []


def test_reads_after_a_batch_that_failed(box: Box) -> None:
    ann = box.client("ann", "@a")
    with pytest.raises(HubError):
        box.write(publish("@a", expires_ms=1 << 63))
    assert box.database.last_number() == 0
    row = box.database.client("ann")
    assert row is not None
    assert row.number == ann
    box.database.check()


def test_two_processes_append(box: Box) -> None:
    box.client("ann", "@a")
    databases = [box.another() for _ in range(4)]
    found: list[list[Appended]] = [[] for _ in databases]

    def append(place: int) -> None:
        for _ in range(25):
            found[place] += databases[place].write([publish("@a") for _ in range(4)])

    threads = [threading.Thread(target=append, args=(place,)) for place in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    numbers = [[each.number for each in some] for some in found]
    assert all(some == sorted(some) and len(some) == 100 for some in numbers)
    assert box.stored(box.topic("@a")) == sorted(number for some in numbers for number in some)
    topic = box.database.topic("@a")
    assert topic is not None
    assert topic.appended == 400


def test_two_processes_change_everything(box: Box) -> None:
    clients = [box.client(f"c{n}", "@a") for n in range(4)]
    databases = [box.another() for _ in range(4)]
    failures: list[BaseException] = []

    def work(place: int) -> None:
        try:
            for n in range(20):
                mine, other = clients[place], clients[(place + 1) % 4]
                result = databases[place].write(
                    [
                        SaveInboxes(tuple(InboxRow(each, n, b"s", 1) for each in clients)),
                        publish("@a"),
                        SetChecks(((mine, 1, 5), (other, 1, 5))),
                        subscribe(mine, f"@t{n % 3}"),
                        subscribe(0, "@a", f"@x{place}", id_=f"~{place}"),
                    ]
                )
                databases[place].write(
                    [
                        Unsubscribe(mine, (result[3].rows[0].topic,)),
                        RemoveAccount("client", f"~{place}"),
                        DeleteAcked(1, result[1].number, 10),
                        RemoveTopics(10),
                    ]
                )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    count, topics = box.database.topic_page(0, 10)
    assert (count, [(each.name, each.subscribers) for each in topics]) == (1, [("@a", 4)])
    assert box.database.client_page(0, 10)[0] == 4


def test_clients_that_an_issuer_added(box: Box) -> None:
    assert box.database.marked_clients() == 0
    for name, token in (("of the store", b"h" * 32), ("a", b"i" * 39), ("b", b"i" * 39)):
        box.write(AddAccount("client", name, token, NOW_MS))
    assert box.database.marked_clients() == 2
    assert [row.issued for row in box.database.accounts("client")] == [True, True, False]
    assert box.database.temporary() == []
    box.write(RotateAccount("client", "a", b"n" * 32, 0, 0))
    box.write(RemoveAccount("client", "b"))
    assert box.database.marked_clients() == 0
