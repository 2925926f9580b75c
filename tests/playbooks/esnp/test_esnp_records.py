"""What the original server answered over TCP (`tests/vectors/records/esnp.jsonl`), beside ours.

A small server stands on a session, as the original's demonstration did: `test/add`, `echo`, `err`
and `panic`. Where our rule is the original's, the bytes must be the same; where it departs on
purpose, a playbook shows the difference.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.playbooks.esnp.peer import Taking, lines, m, mid, raw, smid

from wirelake.protocols.esnp.endpoint import Call
from wirelake.protocols.esnp.layout import (
    BrokenRow,
    Data,
    Payload,
    Row,
    RowType,
    Var,
    VarType,
    XData,
)
from wirelake.protocols.esnp.limits import SessionOptions
from wirelake.protocols.esnp.message import address, addresses
from wirelake.protocols.esnp.session import Announced, Requested
from wirelake.protocols.sansio import Closed, Failed, Role

RECORDS = {name: line for name, line in lines("records/esnp.jsonl").items() if name[:4] == "tcp_"}
GO = SessionOptions(dialect="go", trace_name="service(gos)", message_limit=1 << 20)

SAME = [
    "tcp_add",
    "tcp_add_with_session_and_source",
    "tcp_add_int_as_int64",
    "tcp_err",
    "tcp_panic",
    "tcp_unknown_service",
    "tcp_unknown_op",
    "tcp_no_address",
    "tcp_trace_first_flag",
    "tcp_echo_payload",
    "tcp_echo_list_go_dialect",
    "tcp_echo_unknown_rows_ignored",
    "tcp_head_after_body",
    "tcp_pipelined_two",
    "tcp_byte_by_byte",
]
"""Where ours answers the same bytes."""
OTHERWISE = [
    "tcp_echo_list_seed_dialect",
    "tcp_event_error_still_replied",
    "tcp_negative_len_address",
]
"""Where ours answers otherwise, on purpose."""
ELSEWHERE = ["tcp_oversize", "tcp_auth_ok"]
"""Records of another form; each has a test below."""


def serve(session: Taking, call: Call) -> None:
    """The demonstration's services. A row that does not decode is an error of the request."""
    message = call.message
    where = address(message)
    broken = next((row for row in message.rows if isinstance(row, BrokenRow)), None)
    if broken is not None:
        session.answer(call, error=f"{RowType(broken.type).name}: {broken.code}")
    elif (where.service, where.op) == ("test", "add"):
        values: Any = [row.value.value for row in message.rows if isinstance(row, Data)]
        session.answer(call, [_int32("c", sum(values))])
    elif (where.service, where.op) == ("test", "echo"):
        session.answer(call, [row for row in message.rows if isinstance(row, Data | Payload)])
    elif where.service == "test" and where.op in {"err", "panic"}:
        session.answer(call, error="test error" if where.op == "err" else "test panic")
    else:
        listed = ",".join(f"{kind}={value}" for kind, value in addresses(message))
        session.answer(call, error=f"Address[{listed}] not found ServiceHandler")


def _int32(name: str, value: int) -> Row:
    return Data(name=name, value=Var(type=VarType.INT32, value=value))


def talk(data: bytes, options: SessionOptions = GO, *, step: int | None = None) -> bytes:
    """What a server on a session answers to these bytes."""
    session = Taking(Role.SERVER, options)
    size = step or len(data)
    for start in range(0, len(data), size):
        session.receive(data[start : start + size], 0.0)
        while events := session.events():
            for event in events:
                if isinstance(event, Requested):
                    serve(session, event.call)
    assert session.pending == 0
    return session.to_send()


def test_every_record_has_its_test() -> None:
    assert sorted(RECORDS) == sorted(SAME + OTHERWISE + ELSEWHERE)


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("step", [None, 1, 7], ids=["at once", "byte by byte", "in sevens"])
def test_the_same_bytes(name: str, step: int | None) -> None:
    line = RECORDS[name]
    replies = talk(bytes.fromhex(line["hex"]), step=step)
    assert replies.hex() == "".join(line["expect"]["replies_hex"])


def test_oversize_is_closed_at_its_head_without_a_reply() -> None:
    line = RECORDS["tcp_oversize"]
    assert line["expect"] == {"connection": "closed without reply"}
    session = Taking(Role.SERVER, GO)
    session.receive(bytes.fromhex(line["hex"]), 0.0)
    assert [type(event) for event in session.events()] == [Failed, Closed]
    assert session.to_send() == b""


def test_the_original_s_sign_on_is_two_requests_like_any_other() -> None:
    """Nothing of it is built in: an application that needs it answers by hand."""
    expect = RECORDS["tcp_auth_ok"]["expect"]
    session = Taking(Role.SERVER, GO)
    session.receive(bytes.fromhex(RECORDS["tcp_auth_ok"]["hex"]), 0.0)
    session.events()
    token = bytes.fromhex(expect["reply1_hex"])[15:-4]
    session.answer(session.taken[-1], [XData(id=1, data=token)])
    assert session.to_send().hex() == expect["reply1_hex"]
    session.receive(bytes.fromhex(expect["request2_hex"]), 0.0)
    session.events()
    session.answer(session.taken[-1], [XData(id=1, data=b"\x01")])
    assert session.to_send().hex() == expect["reply2_hex"]


# -- on purpose ------------------------------------------------------------------------------


def test_an_event_is_never_answered() -> None:
    """The original answers its error to an event, and two such peers never stop."""
    line = RECORDS["tcp_event_error_still_replied"]
    assert line["expect"]["replies_hex"]
    session = Taking(Role.SERVER, GO)
    session.receive(bytes.fromhex(line["hex"]), 0.0)
    assert [type(event) for event in session.events()] == [Announced]
    assert session.to_send() == b""


def test_the_document_s_containers_are_read_in_the_document_s_dialect() -> None:
    """The original says EOF; ours reads them, and in dialect go says which row is wrong."""
    line = RECORDS["tcp_echo_list_seed_dialect"]
    request = bytes.fromhex(line["hex"])
    (reply,) = line["expect"]["replies_hex"]
    assert b"EOF" in bytes.fromhex(reply)
    ours = talk(request)
    assert b"DATA: " in ours
    assert b"EOF" not in ours
    echoed = talk(request, SessionOptions())
    assert request[-19:-4] in echoed


def test_a_negative_length_is_an_error_of_its_row() -> None:
    """The original's reader panics, and tells the peer how; ours names the row and the rule."""
    line = RECORDS["tcp_negative_len_address"]
    (reply,) = line["expect"]["replies_hex"]
    assert b"runtime error" in bytes.fromhex(reply)
    ours = talk(bytes.fromhex(line["hex"]))
    assert b"ADDRESS: negative_length" in ours
    assert raw(m(smid(0x1122334455667788)))[:-4] in ours
    assert raw(m(mid(0x1122334455667788)))[:-4] not in ours
