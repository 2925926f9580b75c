"""The exceptions: what they carry, how they read, and that their codes are well kept."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from wirelake.wire.errors import CODES, DecodeError, EncodeError, NeedMore, WireError


def test_an_error_has_code_field_and_detail() -> None:
    error = DecodeError("short", "auth.client_id", 7, "expected 2 bytes, found 1")
    assert (error.code, error.field, error.offset) == ("short", "auth.client_id", 7)
    assert error.detail == "expected 2 bytes, found 1"
    assert str(error) == (
        "short in auth.client_id at byte 7: a field extends beyond the end of its frame, row or "
        "slice (expected 2 bytes, found 1)"
    )


@pytest.mark.parametrize("code", ["bad_args", "bad_config", "bad_value"])
def test_a_detail_replaces_a_general_meaning(code: str) -> None:
    error = EncodeError(code, "body", None, "unknown type 'foo'; expected one of a, b")
    assert str(error) == f"{code} in body: unknown type 'foo'; expected one of a, b"
    assert str(EncodeError(code)) == f"{code}: {CODES[code]}"


def test_what_is_not_known_is_left_out() -> None:
    assert str(EncodeError("bad_url")) == "bad_url: an esnp:// address cannot be parsed or written"
    assert str(DecodeError("bad_end", "", 0)).startswith("bad_end at byte 0: ")
    assert EncodeError("bad_url").offset is None


def test_an_unlisted_code_still_prints() -> None:
    assert str(DecodeError("no_such_code")) == "no_such_code: unlisted code"


@pytest.mark.parametrize("kind", [DecodeError, EncodeError])
def test_both_kinds_are_wire_errors(kind: type[WireError]) -> None:
    with pytest.raises(WireError):
        raise kind("short")


def test_decode_and_encode_errors_are_distinct() -> None:
    assert not issubclass(DecodeError, EncodeError)
    assert not issubclass(EncodeError, DecodeError)


def test_need_more_is_no_error() -> None:
    assert not issubclass(NeedMore, WireError)
    assert NeedMore(3).need == 3


@pytest.mark.parametrize(
    ("need", "text"),
    [(1, "need at least 1 more byte"), (2, "need at least 2 more bytes")],
)
def test_need_more_reads_as_a_sentence(need: int, text: str) -> None:
    assert str(NeedMore(need)) == text


@pytest.mark.parametrize(
    "error", [DecodeError("short", "a.b", 3, "why"), EncodeError("int_range", "a.b", None, "why")]
)
def test_errors_survive_a_trip_to_another_process(error: WireError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert twin.args == error.args
        assert (twin.code, twin.field, twin.offset, twin.detail) == error.args


def test_need_more_survives_a_trip_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(NeedMore(4))).need == 4


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_a_name_with_a_meaning(code: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", code)
    assert len(CODES[code]) > 15
    assert not CODES[code].endswith(".")


def test_no_two_codes_mean_the_same() -> None:
    assert len(set(CODES.values())) == len(CODES)
