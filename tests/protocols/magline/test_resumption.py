"""The store of resumption states: ages, bounds, queues, compare and swap.

All secrets and session ids here are throw-away test values.
"""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.magline.handshake import Mode
from wirelake.protocols.magline.limits import RETRIED, ResumptionOptions
from wirelake.protocols.magline.resumption import (
    MemoryStore,
    ResumptionState,
    ResumptionStore,
    Ticket,
    session_id_of,
)
from wirelake.protocols.magline.session import Push

HOUR = 3600.0
A, B, C = (session_id_of(bytes([n]) * 16) for n in (1, 2, 3))


def state(*, since: float = 0.0, principal: str = "", ready: bool = True) -> ResumptionState:
    return ResumptionState(bytes(32), Mode.PINNED, since, principal=principal, ready=ready)


def holding(*sessions: bytes, options: ResumptionOptions | None = None) -> MemoryStore:
    store = MemoryStore(options)
    for session in sessions:
        store.save(session, state(), 0.0)
    return store


def test_it_is_a_store() -> None:
    store: ResumptionStore = MemoryStore()
    assert store.find(A, 0.0) is None
    assert session_id_of(b"sid") == sha256(b"sid").digest()


def test_a_state_lives_while_connected_and_600_s_after() -> None:
    store = holding(A)
    assert store.find(A, 23 * HOUR) is not None
    store.disconnect(A, 23 * HOUR)
    assert store.find(A, 23 * HOUR + 599) is not None
    assert store.find(A, 23 * HOUR + 600) is None
    assert len(store) == 0


def test_and_24_hours_in_all() -> None:
    store = holding(A)
    store.disconnect(A, 24 * HOUR - 1)
    assert store.find(A, 24 * HOUR - 0.5) is not None
    assert store.find(A, 24 * HOUR) is None


def test_resuming_does_not_extend_the_24_hours() -> None:
    store = holding(A)
    assert store.begin(A, B, b"binder", 20 * HOUR)
    assert store.retire(A, B, bytes(32), 20 * HOUR) is not None
    assert store.find(B, 24 * HOUR - 1) is not None
    assert store.find(B, 24 * HOUR) is None


def test_a_disconnected_state_that_is_resumed_lives_on() -> None:
    store = holding(A)
    store.disconnect(A, 0.0)
    store.begin(A, B, b"binder", 599.0)
    store.retire(A, B, bytes(32), 599.0)
    assert store.find(B, 5 * HOUR) is not None


def test_authentication_begins_the_24_hours() -> None:
    store = MemoryStore()
    store.save(A, state(ready=False), 0.0)
    store.update(A, state(since=30.0))
    assert store.find(A, 24 * HOUR + 29) is not None
    assert store.find(A, 24 * HOUR + 30) is None


def test_update_and_disconnect_of_what_is_not_there_change_nothing() -> None:
    store = MemoryStore()
    store.update(A, state())
    store.disconnect(A, 0.0)
    store.forget(A)
    assert len(store) == 0
    assert store.take_queue(A) == ((), 0)
    assert not store.queue(A, Push(1), 0.0)
    assert not store.begin(A, B, b"binder", 0.0)
    assert store.retire(A, B, bytes(32), 0.0) is None


def test_retire_takes_over_everything_but_the_secret() -> None:
    store = MemoryStore()
    store.save(A, state(since=5.0, principal="ann"), 5.0)
    store.queue(A, Push(1, b"x"), 5.0)
    store.begin(A, B, b"binder", 6.0)
    kept = store.retire(A, B, bytes([7]) * 32, 6.0)
    assert kept == ResumptionState(bytes([7]) * 32, Mode.PINNED, 5.0, principal="ann")
    assert store.find(A, 6.0) is None
    assert store.find(B, 6.0) == kept
    assert store.take_queue(B) == ((Push(1, b"x"),), 0)


def test_retire_happens_once_and_only_for_the_newest() -> None:
    store = holding(A)
    assert store.retire(A, B, bytes(32), 0.0) is None  # nothing is pending
    store.begin(A, B, b"one", 0.0)
    store.begin(A, C, b"two", 0.0)
    assert store.retire(A, B, bytes(32), 0.0) is None
    assert store.retire(A, C, bytes(32), 0.0) is not None
    assert store.retire(A, C, bytes(32), 0.0) is None


def test_copies_of_a_resyn_are_known() -> None:
    store = holding(A)
    assert store.begin(A, B, b"one", 0.0)
    assert not store.begin(A, C, b"one", 0.0)
    assert store.retire(A, B, bytes(32), 0.0) is not None
    store = holding(A)
    for number in range(3 * RETRIED):
        assert store.begin(A, B, bytes([number]), 0.0)
    assert not store.begin(A, B, bytes([2 * RETRIED]), 0.0)


def test_revoking_ends_all_states_of_a_principal() -> None:
    store = MemoryStore()
    store.save(A, state(principal="ann"), 0.0)
    store.save(B, state(principal="ann", ready=False), 0.0)
    store.save(C, state(principal="bob"), 0.0)
    store.begin(A, b"new", b"binder", 0.0)
    assert store.revoke("ann") == 2
    assert store.find(A, 0.0) is None
    assert store.retire(A, b"new", bytes(32), 0.0) is None
    assert store.find(C, 0.0) is not None
    assert store.revoke("ann") == 0


def test_the_least_recently_used_is_evicted_first() -> None:
    store = holding(A, B, options=ResumptionOptions(max_sessions=2))
    store.disconnect(A, 1.0)
    store.save(C, state(), 2.0)
    assert [store.find(each, 2.0) is not None for each in (A, B, C)] == [True, False, True]


def test_unauthenticated_sessions_are_evicted_first() -> None:
    store = holding(A, B, options=ResumptionOptions(max_sessions=3))
    for number in range(50):
        store.save(bytes([number]), state(ready=False), 0.0)
    assert store.find(A, 0.0) is not None
    assert store.find(B, 0.0) is not None
    assert len(store) == 3


def test_expired_entries_are_evicted_first() -> None:
    store = holding(A, B)
    store.disconnect(A, 0.0)
    assert store.expire(599.0) == 0
    assert store.expire(600.0) == 1
    assert len(store) == 1
    store.disconnect(B, 600.0)
    store.save(C, state(since=2000.0), 2000.0)
    assert len(store) == 1


def test_a_queue_drops_its_oldest_and_counts() -> None:
    store = holding(A, options=ResumptionOptions(max_queued=2))
    for number in range(5):
        assert store.queue(A, Push(number), 0.0)
    assert store.take_queue(A) == ((Push(3), Push(4)), 3)
    assert store.take_queue(A) == ((), 0)


def test_a_queue_is_bounded_in_bytes_too() -> None:
    store = holding(A, options=ResumptionOptions(max_queued_bytes=10))
    for number in range(3):
        store.queue(A, Push(number, bytes(4)), 0.0)
    assert store.take_queue(A) == ((Push(1, bytes(4)), Push(2, bytes(4))), 1)
    store.queue(A, Push(9, bytes(11)), 0.0)
    assert store.take_queue(A) == ((), 1)


@given(st.lists(st.integers(0, 30), max_size=60))
def test_a_queue_never_outgrows_its_bounds(sizes: list[int]) -> None:
    options = ResumptionOptions(max_queued=8, max_queued_bytes=100)
    store = holding(A, options=options)
    for size in sizes:
        store.queue(A, Push(1, bytes(size)), 0.0)
    kept, dropped = store.take_queue(A)
    assert len(kept) <= 8
    assert sum(len(push.data) for push in kept) <= 100
    assert len(kept) + dropped == len(sizes)
    assert [len(push.data) for push in kept] == sizes[dropped:]


def test_secrets_do_not_show() -> None:
    secret, sid = bytes([0xAB]) * 32, bytes([0xCD]) * 16
    shown = repr(Ticket(sid, secret, Mode.PSK, None, 0.0))
    shown += repr(ResumptionState(secret, Mode.PSK, 0.0))
    assert repr(secret) not in shown
    assert repr(sid) not in shown


@pytest.mark.parametrize("ready", [True, False])
def test_a_state_is_found_whether_ready_or_not(ready: bool) -> None:
    store = MemoryStore()
    store.save(A, state(ready=ready), 0.0)
    assert store.find(A, 0.0) == state(ready=ready)
    store.update(A, state(ready=True))
    assert store.find(A, 0.0) == state()
    store.forget(A)
    assert len(store) == 0
