"""What parcel messages mean: the columns of `messages`, and so the rows of `calls`."""

from __future__ import annotations

from wirelake.wire.meaning import At, First, Meaning, Named, SignOn, Values

from .layout import Status

__all__ = ["MEANING"]

_SIGN_ON = "hello"

MEANING = Meaning(
    kind=Named(
        {
            "hello": "request",
            "welcome": "response",
            "ask": "request",
            "answer": "response",
            "notice": "push",
            "ping": "heartbeat",
            "pong": "heartbeat",
            "bye": "control",
        }
    ),
    message_id=At("number"),
    reply_to=First(At("answer.to"), At("welcome.to"), At("pong.to")),
    target=First(At("ask.target"), Named({"hello": _SIGN_ON})),
    status=First(
        Values(At("answer.status"), {each: each.name.lower() for each in Status}, digits=True),
        Named({"welcome": "ok"}),
    ),
    reason=At("bye.reason"),
    client=At("hello.courier"),
    body=("ask.body", "answer.body", "notice.content"),
    sign_on=SignOn(confirmed_by=("welcome",), targets=(_SIGN_ON,)),
    heartbeats=("ping",),
)
