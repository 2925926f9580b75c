"""Options and limits of comet connections: what cannot work is refused, what fits is exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.protocols.comet import codec_seed
from wirelake.protocols.comet.layout import MessageList, Notification, TopicList
from wirelake.protocols.comet.limits import (
    SEND_COUNT,
    SEND_FRAME,
    ClientOptions,
    ServerOptions,
    content_limit,
    notification_size,
    page,
    topics_fit,
)
from wirelake.protocols.comet.protocol import PROTOCOL
from wirelake.protocols.comet.sealing import CONTENT_OVERHEAD, HipushContent
from wirelake.protocols.sansio import SessionError

CODECS: dict[str, Any] = {name: PROTOCOL.codec(name) for name in PROTOCOL.dialects}
DES = HipushContent(bytes(range(8)), legacy_hipush=True)  # a throw-away key


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dialect": "auto"}, "dialect: expected one of seed, hipush"),
        ({"push_after": "never"}, "push_after: expected one of auth, list"),
        ({"on_duplicate": "both"}, "on_duplicate: expected one of replace, reject"),
        ({"idle_limit_s": 0}, "idle_limit_s: expected more than 0"),
        ({"auth_deadline_s": -1}, "auth_deadline_s: expected more than 0"),
        ({"auth_attempts": 0}, "auth_attempts: expected more than 0"),
        ({"max_pending": 0}, "max_pending: expected more than 0"),
        ({"max_pending_bytes": 0}, "max_pending_bytes: expected more than 0"),
        ({"legacy_hipush": True}, "legacy_hipush: requires dialect hipush"),
    ],
)
def test_a_server_s_options_that_cannot_work(options: dict[str, Any], why: str) -> None:
    with pytest.raises(SessionError, match=why) as caught:
        ServerOptions(**options)
    assert caught.value.code == "bad_config"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dialect": "upstream"}, "dialect: expected one of seed, hipush"),
        ({"auto_prefers": "auto"}, "auto_prefers: expected one of seed, hipush"),
        ({"heartbeat_s": 0}, "heartbeat_s: expected more than 0"),
        ({"reply_timeout_s": 0}, "reply_timeout_s: expected more than 0"),
        ({"max_pending": 0}, "max_pending: expected more than 0"),
        ({"pinned": b"short"}, "pinned: expected 32 bytes"),
        ({"pinned": bytes(32), "allow_plaintext": True}, "pinned: conflicts with allow_plaintext"),
        (
            {"pinned": bytes(32), "legacy_hipush": True, "dialect": "hipush"},
            "pinned: conflicts with allow_pl",
        ),
        ({"legacy_hipush": True}, "legacy_hipush: requires dialect hipush or auto"),
    ],
)
def test_a_client_s_options_that_cannot_work(options: dict[str, Any], why: str) -> None:
    with pytest.raises(SessionError, match=why) as caught:
        ClientOptions(**options)
    assert caught.value.code == "bad_config"


def test_one_command_at_a_time_unless_the_dialect_is_the_document_s() -> None:
    assert not ClientOptions().waits
    assert ClientOptions(dialect="hipush").waits
    assert ClientOptions(dialect="auto").waits
    assert not ClientOptions(dialect="hipush", one_at_a_time=False).waits
    assert ClientOptions(one_at_a_time=True).waits


def test_a_client_beats_thrice_within_a_server_s_limit() -> None:
    assert 3 * ClientOptions().heartbeat_s <= ServerOptions().idle_limit_s
    assert ClientOptions().max_pending <= ServerOptions().max_pending


# -- sizes -----------------------------------------------------------------------------------


def notifications(dialect: str) -> st.SearchStrategy[Notification]:
    """Notifications that a dialect can write: only hipush has job ids."""
    return st.builds(
        Notification,
        msg_type=st.integers(0, 255),
        msg_id=st.text(max_size=30),
        job_id=st.text(max_size=30) if dialect == "hipush" else st.just(""),
        content=st.binary(max_size=600),
        ts=st.integers(0, 2**48),
    )


def covered(notification: Notification, how: str) -> Notification:
    """The notification with content as long as when it is sealed."""
    content = notification.content
    if how == "sealed":
        content += bytes(CONTENT_OVERHEAD)
    elif how == "des":
        content = DES.seal(content)
    return Notification(
        msg_type=notification.msg_type,
        msg_id=notification.msg_id,
        job_id=notification.job_id,
        content=content,
        ts=notification.ts,
    )


@pytest.mark.parametrize("dialect", ["seed", "hipush"])
@pytest.mark.parametrize("how", ["clear", "sealed", "des"])
@given(data=st.data())
def test_the_size_of_a_notification(dialect: Any, how: str, data: st.DataObject) -> None:
    notification = data.draw(notifications(dialect))
    size = notification_size(notification, sealed=how != "clear", dialect=dialect, des=how == "des")
    assert 3 + size == len(CODECS[dialect].encode_frame(covered(notification, how)))


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("dialect", ["seed", "hipush"])
@pytest.mark.parametrize("how", ["clear", "sealed", "des"])
def test_the_limit_of_content_is_exact(dialect: Any, how: str, listed: bool) -> None:
    job = "j" * 7 if dialect == "hipush" else ""
    limit = content_limit(
        5,
        sealed=how != "clear",
        listed=listed,
        dialect=dialect,
        job_id_bytes=len(job),
        des=how == "des",
    )
    for more, fits in ((0, True), (1, False)):
        one = Notification(
            msg_type=1, msg_id="12345", job_id=job, content=bytes(limit + more), ts=0
        )
        sent: Any = covered(one, how)
        frame = CODECS[dialect].encode_frame(MessageList(messages=(sent,)) if listed else sent)
        assert (len(frame) - 2 <= SEND_FRAME) is fits


@pytest.mark.parametrize("dialect", ["seed", "hipush"])
@pytest.mark.parametrize("how", ["clear", "sealed", "des"])
@given(sizes=st.lists(st.integers(0, 20_000), max_size=200))
def test_a_page_holds_as_many_as_fit(dialect: Any, how: str, sizes: list[int]) -> None:
    job = "j" if dialect == "hipush" else ""
    waiting = [
        Notification(msg_type=1, msg_id=f"p{n:015}", job_id=job, content=bytes(size), ts=n)
        for n, size in enumerate(sizes)
    ]
    taken = page(waiting, sealed=how != "clear", dialect=dialect, des=how == "des")
    assert list(taken) == waiting[: len(taken)]
    assert bool(taken) == bool(waiting)

    def length(count: int) -> int:
        messages = tuple(covered(each, how) for each in waiting[:count])
        return len(CODECS[dialect].encode_frame(MessageList(messages=messages))) - 2

    assert not taken or length(len(taken)) <= SEND_FRAME
    if len(taken) < min(len(waiting), SEND_COUNT):
        following = covered(waiting[len(taken)], how)
        extra = len(CODECS[dialect].encode_frame(following)) - 3
        assert length(len(taken)) + extra > SEND_FRAME


@given(topics=st.lists(st.text(min_size=1, max_size=256), max_size=140))
def test_topics_fit_when_their_list_does(topics: list[str]) -> None:
    frame = codec_seed.encode_frame(TopicList(topics=tuple(topics)))
    assert topics_fit(topics) == (len(topics) <= SEND_COUNT and len(frame) - 2 <= SEND_FRAME)
