"""What ESNP's events tell beyond their fields."""

from __future__ import annotations

from tests.playbooks.esnp.peer import REQUEST, RESP, err, m, mid, raw

from wirelake.protocols.esnp.endpoint import Answered, Call
from wirelake.protocols.esnp.layout import Version


def test_an_answer_has_its_error() -> None:
    for message, error in ((m(RESP), None), (m(RESP, err("")), ""), (m(RESP, err("e")), "e")):
        assert Answered(1, message, raw(message)).error == error


def test_a_call_is_itself_alone() -> None:
    """Two with the same content are two; the session finds them by identity."""
    message = m(REQUEST, mid(1), Version(major=1, minor=2, branch=3, variant=4))
    one, other = (Call((message,), (raw(message),), False) for _ in range(2))
    assert one != other
    assert len({one, other}) == 2
    assert one.message is message
    assert one.version == Version(major=1, minor=2, branch=3, variant=4)
