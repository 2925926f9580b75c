"""Which result codes close a connection."""

from __future__ import annotations

from wirelake.protocols.tny.layout import SUCCESS
from wirelake.protocols.tny.message import CLOSING, ResultCode, closes


def test_the_codes_of_level_error_close_and_no_others() -> None:
    closing = {153, 154, 210, 216, 217, 220, 221, 224, 225, 226}
    assert {code for code in range(-10, 1000) if closes(code)} == closing == CLOSING


def test_the_codes_that_the_rules_name() -> None:
    assert ResultCode.SUCCESS == SUCCESS
    assert not closes(ResultCode.NO_SUCH_PROTOCOL)
    assert not closes(ResultCode.VERIFY_FAILED)
    assert closes(ResultCode.NO_LINK)
