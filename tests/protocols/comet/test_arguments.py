"""Which arguments of comet commands are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.comet.arguments import BAD_ARGUMENTS_REPLY, BAD_KEY_REPLY, check_arguments
from wirelake.protocols.comet.layout import (
    Auth,
    Command,
    Error,
    ExchangeKey,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageAck,
    ReportEnviron,
    Subscribe,
    Unsubscribe,
)
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.hub_calls import is_client_topic
from wirelake.wire.errors import DecodeError

LONE = b"\xff".decode("utf-8", "surrogateescape")
"""How the codec gives a byte that is not UTF-8."""


def environ(**fields: object) -> ReportEnviron:
    plain = {"network_type": 0, "isp": 0, "phone_type": "p", "extra": ()}
    return ReportEnviron(**{**plain, **fields})  # type: ignore[arg-type]


GOOD: list[Command] = [
    Auth(client_id="c", token="t"),
    Auth(client_id="é" * 128, token="t" * 5000),
    ExchangeKey(secret_key=b""),
    GetTopicList(),
    Subscribe(topics=("@",)),
    Subscribe(topics=("@news", "@a/b_c-d@e$f", "@新闻", "@٣", "@𠀀")),
    Subscribe(topics=("@" + "a" * 255,)),
    Unsubscribe(topics=("@news",)),
    GetMessageList(),
    Heartbeat(),
    MessageAck(msg_ids=()),
    MessageAck(msg_ids=("", "x" * 40_000)),
    environ(network_type=3, isp=3, phone_type="", extra=("",)),
]

BAD: list[tuple[Command, str]] = [
    (Auth(client_id="", token="t"), "auth.client_id"),
    (Auth(client_id="x" * 257, token="t"), "auth.client_id"),
    (Auth(client_id="é" * 129, token="t"), "auth.client_id"),
    (Auth(client_id=LONE, token="t"), "auth.client_id"),
    (Auth(client_id="c", token=""), "auth.token"),
    (Auth(client_id="c", token=LONE), "auth.token"),
    (Subscribe(topics=()), "subscribe.topics"),
    (Subscribe(topics=("@a", "")), "subscribe.topics"),
    (Subscribe(topics=("a",)), "subscribe.topics"),
    (Subscribe(topics=("$a",)), "subscribe.topics"),
    (Subscribe(topics=("@a b",)), "subscribe.topics"),
    (Subscribe(topics=("@a", "@a.b")), "subscribe.topics"),
    (Subscribe(topics=("@½",)), "subscribe.topics"),
    (Subscribe(topics=("@😀",)), "subscribe.topics"),
    (Subscribe(topics=("@" + "a" * 256,)), "subscribe.topics"),
    (Subscribe(topics=("@" + LONE,)), "subscribe.topics"),
    (Unsubscribe(topics=()), "unsubscribe.topics"),
    (Unsubscribe(topics=("a",)), "unsubscribe.topics"),
    (MessageAck(msg_ids=("a", LONE)), "message_ack.msg_ids"),
    (environ(network_type=4), "report_environ.network_type"),
    (environ(isp=255), "report_environ.isp"),
    (environ(phone_type=LONE), "report_environ.phone_type"),
    (environ(extra=("a", LONE)), "report_environ.extra"),
]


@pytest.mark.parametrize("command", GOOD, ids=lambda command: type(command).__name__)
def test_accepted(command: Command) -> None:
    check_arguments(command)
    data = PROTOCOL.encode(command)
    assert PROTOCOL.decode(data, direction="c2s").message == command


@pytest.mark.parametrize(("command", "field"), BAD)
def test_refused(command: Command, field: str) -> None:
    with pytest.raises(DecodeError) as caught:
        check_arguments(command)
    assert (caught.value.code, caught.value.field) == ("bad_args", field)


def test_ids_have_a_pluggable_rule() -> None:
    def sixteen(text: str) -> bool:
        return len(text) == 16 and text.startswith("c")

    check_arguments(Auth(client_id="c01000010000abcd", token="t"), valid_id=sixteen)
    with pytest.raises(DecodeError, match="bad_args"):
        check_arguments(Auth(client_id="c", token="t"), valid_id=sixteen)


@given(st.text(min_size=1, max_size=300))
def test_a_topic_is_refused_or_made_of_its_characters(text: str) -> None:
    wanted = text[0] == "@" and len(text) <= 256
    wanted = wanted and all(c.isalpha() or c.isdecimal() or c in "/_-@$" for c in text)
    assert is_client_topic(text) is wanted


def test_replies() -> None:
    assert Error(error_code=4, reason="message format illegal") == BAD_ARGUMENTS_REPLY
    assert Error(error_code=4, reason="bad key") == BAD_KEY_REPLY
