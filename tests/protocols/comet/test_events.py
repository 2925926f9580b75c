"""What comet's events print, and what they do not.

What the rules say is in `tests/playbooks/comet`. All tokens and keys are throw-away test values.
"""

from __future__ import annotations

from tests.playbooks.comet.peer import AUTH, EPH_PRIVATE, SECRET, exchange, pair

from wirelake.protocols.comet.layout import Ok, Subscribe
from wirelake.protocols.comet.session import AuthRequested, Replied


def test_secrets_are_not_printed() -> None:
    both = pair()
    both.client.send(AUTH)
    both.run()
    both.server.accept()
    both.client.receive(both.server.to_send(), 0.0)
    both.client.exchange_key(secret=SECRET, eph_private=EPH_PRIVATE)
    both.run()
    events = [*both.client_events, *both.server_events]
    printed = "".join(f"{event!r}{event.__rich_repr__()!r}" for event in events)
    assert AUTH.token not in printed
    assert AUTH.client_id in printed
    assert repr(exchange()[0].secret_key) not in printed
    assert Replied(AUTH, Ok()).command.token == AUTH.token


def test_an_event_that_holds_no_secret_prints_all() -> None:
    replied = Replied(Subscribe(topics=("@news",)), Ok())
    assert repr(replied) == "Replied(command=Subscribe(topics=('@news',)), reply=Ok())"
    assert AuthRequested("c", "throw-away") == AuthRequested("c", "throw-away")
