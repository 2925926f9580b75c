"""Which address is tried next, and after what delay."""

from __future__ import annotations

import pytest

from wirelake.client.addresses import Addresses, Backoff
from wirelake.client.errors import Unreachable
from wirelake.client.settings import make_settings


def hosts(addresses: Addresses, count: int) -> list[str]:
    """The next hosts; a `+` marks those after a delay."""
    found = []
    for _ in range(count):
        where, delay_s = addresses.next()
        found.append(where.host + "+" * bool(delay_s))
    return found


def addresses_of(servers: str, **options: object) -> Addresses:
    return Addresses(make_settings(f"tny://{servers}", **{"shuffle": False, **options}))


def test_a_delay_follows_a_whole_round() -> None:
    assert hosts(addresses_of("a,b,c"), 7) == ["a", "b", "c", "a+", "b", "c", "a+"]
    assert hosts(addresses_of("a"), 3) == ["a", "a+", "a+"]


@pytest.mark.parametrize(
    ("servers", "wanted"), [("a,b,c", ["b", "c", "a+", "b"]), ("a", ["a+", "a+"])]
)
def test_after_a_loss_another_one_comes_next(servers: str, wanted: list[str]) -> None:
    addresses = addresses_of(servers)
    assert hosts(addresses, 1) == ["a"]
    addresses.lost(60.0)
    assert hosts(addresses, len(wanted)) == wanted


def test_all_others_come_before_a_delay() -> None:
    addresses = addresses_of("a,b,c")
    assert hosts(addresses, 2) == ["a", "b"]
    addresses.lost(60.0)  # of b
    assert hosts(addresses, 4) == ["c", "a", "b+", "c"]


def test_connections_that_do_not_last_are_attempts_of_a_round() -> None:
    addresses = addresses_of("a,b")
    found = []
    for _ in range(5):
        found += hosts(addresses, 1)
        addresses.lost(0.1)
    assert found == ["a", "b", "a+", "b", "a+"]


def test_a_round_can_start_anew() -> None:
    addresses = addresses_of("a,b")
    assert hosts(addresses, 2) == ["a", "b"]
    addresses.start_round()
    assert hosts(addresses, 3) == ["a", "b", "a+"]


@pytest.mark.parametrize("servers", ["a", "a,b"])
def test_an_attempt_can_be_repeated(servers: str) -> None:
    addresses = addresses_of(servers)
    for _ in range(2):
        assert hosts(addresses, 1) == ["a"]
        addresses.repeat()
    assert hosts(addresses, 1) == ["a"]
    assert addresses.current.host == "a"


def test_servers_are_shuffled_unless_their_order_counts() -> None:
    servers = ",".join("abcdefgh")
    assert hosts(addresses_of(servers), 8) == list("abcdefgh")
    orders = {tuple(hosts(addresses_of(servers, shuffle=True), 8)) for _ in range(20)}
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple("abcdefgh")}


def test_failures_are_kept_until_there_is_a_connection() -> None:
    addresses = addresses_of("a,b")
    addresses.next()
    addresses.failed(Unreachable("first"))
    addresses.next()
    addresses.failed(Unreachable("second"))
    assert [(place, str(error)) for place, error in addresses.failures.items()] == [
        ("a:9610", "first"),
        ("b:9610", "second"),
    ]
    addresses.connected()
    assert not addresses.failures


def test_delays_double_up_to_a_limit() -> None:
    backoff = Backoff(0.1, 30.0)
    waits = [backoff.next() for _ in range(100)]
    for number, wait in enumerate(waits):
        most = min(0.1 * 2.0 ** min(number, 60), 30.0)
        assert most / 2 <= wait <= most
    assert len({round(wait, 6) for wait in waits[20:]}) > 10, "left to chance"
    backoff.reset()
    assert backoff.next() <= 0.1


def test_only_a_connection_that_lasted_resets_the_delays() -> None:
    addresses = addresses_of("a", backoff_s=1.0, max_backoff_s=100.0)
    for _ in range(10):
        addresses.next()
    addresses.lost(0.5)
    assert addresses.next()[1] >= 50
    addresses.lost(60.0)
    assert addresses.next()[1] <= 1
