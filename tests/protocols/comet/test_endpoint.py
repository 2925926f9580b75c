"""What both ends of comet share.

What the rules say is in `tests/playbooks/comet`. All tokens and keys are throw-away test values.
"""

from __future__ import annotations

from tests.playbooks.comet.peer import HELLO, VECTORS

from wirelake.protocols.comet.endpoint import (
    ANSWERS,
    ENDS,
    REASONS,
    open_content,
    seal,
    with_content,
)
from wirelake.protocols.comet.sealing import ContentOpener, ContentSealer, HipushContent
from wirelake.protocols.comet.session import ClientSession, ServerSession
from wirelake.protocols.sansio import CLOSED


def test_every_command_has_its_answers() -> None:
    wanted = "Auth ExchangeKey GetTopicList Subscribe Unsubscribe GetMessageList Heartbeat"
    assert {each.__name__ for each in ANSWERS} == {*wanted.split(), "MessageAck", "ReportEnviron"}


def test_content_is_covered_the_same_way_at_both_ends() -> None:
    des = HipushContent(b"8 bytes!", legacy_hipush=True)  # a throw-away key
    key = bytes(range(32))
    for sealer, opener in ((None, None), (des, des), (ContentSealer(key), ContentOpener(key))):
        covered = seal(sealer, HELLO)
        assert (covered.content == HELLO.content) is (sealer is None)
        assert open_content(opener, covered) == HELLO.content
        assert with_content(covered, HELLO.content) == HELLO


def test_the_texts_of_errors_are_the_original_ones() -> None:
    for name in ("error_token_expired", "error_client_not_found", "error_client_dup"):
        fields = VECTORS[name]["expect"]["fields"]
        assert REASONS[fields["error_code"]] == fields["reason"]


def test_every_state_can_end() -> None:
    for cls in (ServerSession, ClientSession):
        for table in cls.TABLES.values():
            assert all(set(ENDS) <= set(table[state]) for state in table if state != CLOSED)
