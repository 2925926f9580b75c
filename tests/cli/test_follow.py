"""`wirelake follow`: a connection or a tunnel as a conversation, faults in their place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from wirelake.cli.commands.follow import ConversationView, EventOrder

from .conftest import Result, Run
from .simulated import captures_of, rows, traffic

pytestmark = pytest.mark.slow

__all__ = ["traffic"]

SECOND = 1_000_000_000
LINE = re.compile(r" *(?P<seconds>[\d.]+) (?P<mark>[→←✗─·]) (?P<text>.*)")


def marks(found: Result) -> list[tuple[str, str]]:
    """The marks and texts of lines with a time, which never goes back."""
    lines = [match for line in found.lines if (match := LINE.fullmatch(line))]
    seconds = [float(match["seconds"]) for match in lines]
    assert seconds == sorted(seconds)
    return [(match["mark"], match["text"]) for match in lines]


def whole(traffic: Path) -> dict[str, Any]:
    """A connection that was opened, spoke and closed."""
    found = rows(traffic, table="connections", filter='faults == 0 and closed_how == "fin"')
    return max(found, key=lambda row: row["requests"])  # type: ignore[return-value,arg-type]


def test_a_connection_from_its_opening_to_its_close(run: Run, traffic: Path) -> None:
    connection = whole(traffic)
    found = run("follow", str(traffic), str(connection["connection"]))
    assert (found.code, found.err) == (0, "")
    ends = "client {client_address}:{client_port}, server {server_address}:{server_port}"
    assert found.lines[0] == f"connection {connection['connection']}, {ends.format(**connection)}"
    result = marks(found)
    assert result[0] == ("─", "opened")
    assert (
        result[-1][1].startswith(f"closed by the {connection['closed_by']}") or result[-1][0] == "·"
    )
    assert [mark for mark, _ in result].count("→") == connection["messages_c2s"]
    assert [mark for mark, _ in result].count("←") == connection["messages_s2c"]
    assert found.lines[-1] == (
        f"{connection['messages_c2s']} messages ({connection['bytes_c2s']:,} B) from the client,"
        f" {connection['messages_s2c']} messages ({connection['bytes_s2c']:,} B) from the server,"
        f" {connection['duration_ns'] / SECOND:,.3f} s"
    )


def test_messages_have_their_kind(run: Run, traffic: Path) -> None:
    number = whole(traffic)["connection"]
    result = marks(run("follow", str(traffic), str(number)))
    texts = [text.split() for mark, text in result if mark in "→←"]
    for text, row in zip(texts, rows(traffic, filter=f"connection == {number}"), strict=True):
        words = [row["kind"], row["name"], row["target"], row["status"], f"{row['size_bytes']:,}"]
        assert text[: len(words) - words.count(None)] == [word for word in words if word]


@pytest.mark.parametrize("code", ["gap", "truncated_stream", "bad_end"])
def test_faults_are_shown_in_their_place(run: Run, traffic: Path, code: str) -> None:
    fault = rows(traffic, table="faults", filter=f'code == "{code}"')[0]
    found = run("follow", str(traffic), str(fault["connection"]))
    assert found.code == 0
    result = marks(found)
    [at] = [n for n, (mark, text) in enumerate(result) if mark == "✗" and text.startswith(code)]
    end = {"c2s": "client", "s2c": "server"}[str(fault["direction"])]
    assert result[at][1].startswith(f"{code} from the {end}, ")
    if fault["missing_bytes"]:
        assert f"{fault['missing_bytes']} bytes missing" in result[at][1]
    assert "fault" in found.lines[-1]
    assert {mark for mark, _ in result[:at]} & {"→", "←"}


def test_fields_and_bytes_on_request(run: Run, traffic: Path) -> None:
    row = next(row for row in rows(traffic, filter='name == "message"') if row["body"])
    found = run("follow", str(traffic), str(row["connection"]), "--fields", "--hex")
    body = row["body"]
    assert isinstance(body, bytes)
    first = body[:16].hex(" ")
    assert any(line.strip().startswith(f"0000  {first}") for line in found.lines)
    assert any('{"message":{"msg_type":' in line for line in found.lines)
    short = run("follow", str(traffic), str(row["connection"]))
    assert short.lines == [line for line in found.lines if not line.startswith(" " * 17)]


def test_json(run: Run, traffic: Path) -> None:
    connection = whole(traffic)
    found = run("follow", str(traffic), str(connection["connection"]), "--json")
    events = [json.loads(line) for line in found.lines]
    assert events[0]["event"] == "opened"
    assert {"message", "closed"} <= {event["event"] for event in events}
    assert {event["connection"] for event in events} == {str(connection["connection"])}
    count = connection["messages_c2s"] + connection["messages_s2c"]
    assert [event["event"] for event in events].count("message") == count


def test_a_tunnel(run: Run, traffic: Path) -> None:
    tunnel = next(
        row
        for row in rows(traffic, table="tunnels", filter='outcome == "closed"')
        if row["opened_ns"] and row["messages_c2s"]
    )
    found = run("follow", str(traffic), str(tunnel["connection"]))
    name = f"{tunnel['instance_id']}/{tunnel['tunnel_id']}"
    assert found.lines[0] == (
        f"connection {tunnel['connection']}, tunnel {name} of link {tunnel['first_link']}"
    )
    result = [text.split() for _, text in marks(found)]
    assert result[0][:3] == ["control", "tunnel_connect", name]
    assert result[-1][:3] == ["control", "tunnel_disconnect", name]
    assert not any("tunnel_relay" in text for text in result)
    assert found.lines[-1].startswith(f"{tunnel['messages_c2s']} messages ")


def test_a_capture_that_ends_too_early(run: Run, traffic: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(captures_of(traffic)[-1]).read_bytes()[:30_000])
    number = json.loads(
        run("read", str(cut), "--table", "connections", "--filter", "closed_ns is null").lines[0]
    )["connection"]
    found = run("follow", str(cut), str(number))
    assert marks(found)[-1] == ("─", "still open at the end of the capture")
    assert (
        found.err == f"wirelake: {cut}: ends within a packet; the result is of what comes before\n"
    )


def test_keys_and_secrets(run: Run, traffic: Path) -> None:
    taps = [file for file in captures_of(traffic) if "tap" in file]
    [log] = traffic.glob("*.keys")
    lines = run("read", *taps, "--filter", 'sealed and protocol == "magline"').lines
    number = str(json.loads(lines[0])["connection"])
    assert "sealed" in run("follow", *taps, number).out
    assert "sealed" not in run("follow", *taps, number, "--keys", str(log)).out


def test_what_read_prints_is_accepted(run: Run, traffic: Path) -> None:
    first = json.loads(run("read", str(traffic), "--table", "connections").lines[0])
    assert run("follow", str(traffic), first["connection"]).code == 0


def test_a_connection_by_the_address_of_an_end(run: Run, traffic: Path) -> None:
    connection = whole(traffic)
    address = "{client_address}:{client_port}".format(**connection)
    wanted = run("follow", str(traffic), str(connection["connection"]))
    assert run("follow", str(traffic), address).out == wanted.out
    tunnel = rows(traffic, table="tunnels", filter="user_port is not null")[0]
    user = "{user_address}:{user_port}".format(**tunnel)
    found = run("follow", str(traffic), user)
    assert (found.code, found.lines[0].split(",")[0]) == (0, f"connection {tunnel['connection']}")


def test_an_address_of_several_connections_lists_them(run: Run, traffic: Path) -> None:
    connections = rows(traffic, table="connections")
    server = "{server_address}:{server_port}".format(**connections[0])
    found = run("follow", str(traffic), server)
    assert found.code == 2
    same = [row for row in connections if "{server_address}:{server_port}".format(**row) == server]
    assert f"{len(same)} connections at {server}; choose one: " in found.err
    assert any(str(row["connection"]) in found.err for row in same)
    none = run("follow", str(traffic), "[2001:db8::1]:9600")
    assert (none.code, none.out) == (2, "")
    assert "no connection at [2001:db8::1]:9600; wirelake read" in none.err


def test_an_unknown_connection(run: Run, traffic: Path) -> None:
    code, out, err = run("follow", str(traffic), "5")
    assert (code, out) == (2, "")
    assert err.startswith("wirelake: no such connection 5;")
    assert f"wirelake read {traffic} --table connections lists" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x",), "invalid connection 'x'; expected a number from column `connection`, or IP:PORT"),
        (("9223372036854775808",), "invalid connection '9223372036854775808'; expected a number"),
        (("²",), "invalid connection '²'; expected a number from column `connection`, or IP:PORT"),
        (("10.0.0.1:",), "invalid connection '10.0.0.1:'; expected a number"),
        (("10.0.0.1:65536",), "invalid connection '10.0.0.1:65536'; expected a number"),
        (("host:80",), "invalid connection 'host:80'; expected a number"),
        (("no/such.pcap", "5"), "no/such.pcap: No such file or directory"),
        (("5", "--as", "nope"), "unknown protocol 'nope'"),
        (("5", "--keys", "no/such.keys"), "no/such.keys: No such file or directory"),
    ],
)
def test_bad_usage(run: Run, traffic: Path, args: tuple[str, ...], words: str) -> None:
    code, out, err = run("follow", str(traffic), *args)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_no_file(run: Run) -> None:
    assert "missing argument; expected FILE… CONNECTION (" in run("follow", "5").err


# -- order and words -------------------------------------------------------------------------


def at(ts_ns: int | None, event: str = "message", connection: int = 7) -> dict[str, Any]:
    return {"event": event, "ts_ns": ts_ns, "connection": connection}


def test_what_was_captured_behind_a_hole_comes_in_its_place() -> None:
    order = EventOrder(7)
    order.waiting = {7: 20, 8: 1}
    assert list(order.add([at(10), at(30), at(20)])) == [at(10)]
    order.waiting = {7: 25}
    assert list(order.add([at(40)])) == [at(20)]
    order.waiting = {}
    found = [at(30, "closed"), at(30, "fault"), at(30, "opened"), at(30, "fact")]
    assert list(order.add(found)) == [
        at(30, "opened"), at(30, "fact"), at(30, "fault"), at(30), at(30, "closed"), at(40),
    ]  # fmt: skip
    order.waiting = {7: 45}
    assert list(order.add([at(50)])) == []
    assert order.rest() == [at(50)]


def test_live_events_do_not_wait_for_further_packets() -> None:
    """The last message of a connection that is silent then."""
    order = EventOrder(7, live=True)
    order.waiting = {7: 20}
    assert list(order.add([at(10), at(20), at(30)])) == [at(10), at(20)]
    order.waiting = {}
    assert list(order.add([])) == [at(30)]


def test_a_tunnel_waits_for_its_link() -> None:
    order = EventOrder(7)
    order.waiting = {9: 20}
    inside = {**at(30), "tunnel_link": 9}
    assert list(order.add([at(10, connection=9), inside])) == [at(10, connection=9)]
    assert order.rest() == [inside]


def test_endings_as_text() -> None:
    view = ConversationView(7, fields=False, as_hex=False)
    words = []
    for side, how in (("c2s", "fin"), ("s2c", "rst"), (None, "anew"), (None, None)):
        closed = {**at(SECOND, "closed"), "side": side, "how": how}
        words.append(list(view.lines(closed))[-1].split("─ ")[1])
    assert words == [
        "closed by the client",
        "closed by the server (reset)",
        "closed (the same ports opened a new connection)",
        "closed",
    ]


def test_control_characters_in_facts_are_escaped() -> None:
    view = ConversationView(7, fields=False, as_hex=False)
    fact = {**at(SECOND, "fact"), "kind": "\x1b[2J", "data": {"reason": "\x1b[31m早"}}
    line = list(view.lines(fact))[-1]
    assert line.endswith('· fact \\x1b[2J {"reason":"\\u001b[31m早"}')


def test_a_fault_without_a_time() -> None:
    view = ConversationView(7, fields=False, as_hex=False)
    fault = {
        **at(None, "fault"), "code": "gap", "direction": "c2s", "missing_bytes": 0,
        "present_bytes": 2, "detail": "x", "bytes": "ab",
    }  # fmt: skip
    assert [click.unstyle(line).strip() for line in view.lines(fault)] == [
        "✗ gap from the client, 2 bytes not decoded, x"
    ]
