"""comet's public names, and its vectors through real sessions.

What the rules say is in `tests/playbooks/comet`. All tokens and keys are throw-away test values.
"""

from __future__ import annotations

from typing import Any

from tests.playbooks.comet.peer import VECTORS, vector
from tests.protocols.comet.states import client_in, server_in

from wirelake.protocols.comet import session
from wirelake.protocols.sansio import Closed


def test_the_public_names() -> None:
    assert set(session.__all__) <= set(dir(session))


def test_the_vectors_of_a_decoder_go_through_sessions_too() -> None:
    """Every vector that decodes is handled, and every one that does not ends the session."""
    for name, each in VECTORS.items():
        if each["expect"].get("dialect") == "hipush" or name.startswith("legacy"):
            continue
        receiver: Any = server_in("keyed") if each["direction"] == "c2s" else client_in("keyed")
        receiver.receive(vector(name), 0.0)
        events = receiver.events()
        fatal = each["expect"].get("fatal", False)
        assert not fatal or receiver.closed, name
        assert all(isinstance(e, Closed) for e in events[-1:] if receiver.closed), name
