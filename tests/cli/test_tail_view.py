"""A message of `wirelake tail` as text."""

from __future__ import annotations

from typing import Any

import click
import pytest

from wirelake.cli.commands.tail import MessageView
from wirelake.cli.output.text import unsigned_values
from wirelake.protocols.comet.layout import Auth
from wirelake.protocols.esnp.layout import VarType
from wirelake.protocols.registry import find

ROW: dict[str, Any] = {
    "ts_ns": 1_700_000_000_123_456_789,
    "connection": 77,
    "direction": "c2s",
    "protocol": "esnp",
    "kind": "request",
    "name": "request",
    "message_id": 5,
    "reply_to": None,
    "target": "test/add",
    "status": None,
    "reason": None,
    "client": None,
    "ids": None,
    "body": None,
    "sealed": False,
    "size_bytes": 60,
    "body_bytes": None,
    "tunnel_link": None,
    "peer": "127.0.0.1:4321",
    "signed_on": "anna",
}


def _line(width: int | None = None, **changes: Any) -> str:
    (line,) = MessageView(width, as_hex=False).lines({**ROW, **changes})
    return click.unstyle(line)


def test_a_line_has_everything() -> None:
    words = _line(ids=["m1", "m2"]).split()
    assert words == [
        "22:13:20.123456", "esnp", "→", "anna", "request", "test/add", "#5,", "m1,", "m2",
    ]  # fmt: skip
    answer = _line(direction="s2c", reply_to=5, message_id=None, status="error", reason="why not")
    assert answer.endswith("test/add  error  why not  to #5")
    assert " ← " in answer


def test_a_response_has_the_target_of_its_request() -> None:
    view = MessageView(None, as_hex=False)

    def line(**changes: Any) -> str:
        (text,) = view.lines({**ROW, **changes})
        return click.unstyle(text)

    response = {"kind": "response", "name": "response", "direction": "s2c", "target": None}
    assert line().endswith("request   test/add  #5")
    part = line(**response | {"kind": "part"}, message_id=None, reply_to=5)
    assert part.endswith("part      response  test/add  to #5")
    failed = line(**response, message_id=None, reply_to=5, status="error", reason="no such user")
    assert failed.endswith("response  test/add  error  no such user  to #5")
    # Answered: a second response, and one of another connection, belong to no request.
    assert line(**response, message_id=None, reply_to=5).endswith("response  to #5")
    line(message_id=6)
    other = line(**response, message_id=None, reply_to=6, connection=78)
    assert other.endswith("response  to #6")


def test_requests_without_an_answer_are_forgotten() -> None:
    view = MessageView(None, as_hex=False)
    for number in range(10_100):
        list(view.lines({**ROW, "message_id": number}))
    assert len(view._targets) == 10_000


@pytest.mark.parametrize("width", [70, 80, 99])
def test_a_narrow_terminal_shows_names_and_errors(width: int) -> None:
    line = _line(
        width, kind="response", name="response", direction="s2c", status="error", reason="why not",
        message_id=(1 << 62) + 1, reply_to=(1 << 62) + 2,
    )  # fmt: skip
    assert len(line) <= width
    assert "test/add  error" in line
    assert "response  response" not in line


@pytest.mark.parametrize(
    ("changes", "who"),
    [
        ({}, "anna"),
        ({"signed_on": "", "client": "ben"}, "ben"),
        ({"signed_on": ""}, "127.0.0.1:4321"),
        ({"signed_on": None, "peer": None}, "#77"),
        ({"tunnel_link": 3}, "tunnel 77"),
        ({"signed_on": "a" * 40}, "a" * 17 + "…"),
    ],
)
def test_who(changes: dict[str, Any], who: str) -> None:
    assert f"→  {who:<18}  request" in _line(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"body": "rain", "message_id": None}, "rain"),
        ({"body": "two\nlines\x1b[2J"}, "two\\nlines\\x1b[2J  #5"),
        ({"body_base64": "/w==", "body_bytes": 1}, "1 bytes  #5"),
        ({"masked": True, "body": None}, "(secret)  #5"),
        ({"sealed": True}, "sealed  #5"),
        ({"esnp": {"rows_by_kind": {"types": [], "data": []}}}, "#5"),
    ],
)
def test_the_short_output(changes: dict[str, Any], said: str) -> None:
    assert _line(**changes).endswith(said)


def test_fields_are_shown_by_name() -> None:
    fields = {"body": "auth", "auth": None, "subscribe": {"topics": ["@a", "@b"]}, "other": None}
    assert _line(protocol="comet", comet=fields).endswith('topics=["@a", "@b"]  #5')


def test_rows_of_esnp_are_like_fields() -> None:
    rows = {
        "types": [30, 21, 21, 21, 21, 22, 99],
        "header": [],
        "data": [
            {"name": "a", "value": [{"parent": -1, "int": 1}]},
            {"name": "t", "value": [{"bytes": "cmFpbg=="}]},
            {"name": "b", "value": [{"bytes": "/w=="}]},
            {"name": "n", "value": [{"int": 1}, {"int": 2}]},
        ],
        "seq_no": [{"number": 3, "last": 9}],
        "flag": [{"value": 4}],
        "opaque": [{"type": 99, "data": "cmFpbg=="}],
    }
    said = _line(esnp={"rows_by_kind": rows}, message_id=None)
    assert said.endswith("a=1 t=rain b=1 bytes n=2 values last=9 data=cmFpbg==")


def test_unsigned_integers_are_positive() -> None:
    unsigned, signed = int(VarType.UINT64), int(VarType.INT64)
    nodes = [{"parent": -1, "type": kind, "int": -1} for kind in (unsigned, signed)]
    data = [{"name": name, "value": [node]} for name, node in zip("us", nodes, strict=True)]
    said = _line(esnp={"rows_by_kind": {"data": data}}, message_id=None)
    assert said.endswith(f"u={(1 << 64) - 1} s=-1")
    shown = unsigned_values({"esnp": {"rows_by_kind": {"data": data}}})
    assert [each["value"][0]["int"] for each in shown["esnp"]["rows_by_kind"]["data"]] == [
        str((1 << 64) - 1),
        -1,
    ]


def test_a_line_fits_the_terminal() -> None:
    for width in (40, 80, 120):
        line = _line(width, body="rain " * 100)
        assert len(line) <= width
        assert line.endswith("…")
    assert len(_line(body="rain " * 1_000)) <= 1_000


def _hex(**changes: Any) -> list[str]:
    _, *lines = MessageView(None, as_hex=True).lines({**ROW, **changes})
    return [click.unstyle(line).strip() for line in lines]


def test_bytes_are_shown_by_field_without_secrets() -> None:
    comet = find("comet")
    data = comet.encode(Auth(client_id="anna", token="\0" * 11))
    lines = _hex(protocol="comet", frame_hex=data.hex(), dialect="seed")
    assert any("client_id" in line and "'anna'" in line for line in lines)
    (token,) = [line for line in lines if "token" in line]
    assert "**" in token
    assert "secret" in token


def test_bytes_that_are_not_there() -> None:
    assert _hex(masked=True) == ["bytes masked: they contain a secret"]
    assert _hex(tunnel_link=3) == ["bytes are part of a packet of link 3"]
    assert _hex() == ["no bytes"]


def test_bytes_of_a_protocol_that_is_not_known_here() -> None:
    assert _hex(protocol="of-the-hub-alone", frame_hex="00ff") == ["00 ff"]
