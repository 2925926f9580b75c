"""`wirelake call`, `publish`, `subscribe` and `ping` with a hub in a process of its own."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.hub.stores import configured, database_of

from wirelake.cli.main import main
from wirelake.cli.options import typed_value
from wirelake.cli.output.text import body_text
from wirelake.client import Client, Timeout

pytestmark = pytest.mark.slow

SOURCES = str(Path(__file__).parents[2] / "src")
DEADLINE_S = 60.0


class Hub(NamedTuple):
    """A hub that runs."""

    data: Path
    places: dict[str, str]
    token: str

    def url(self, protocol: str) -> str:
        """Where it listens."""
        return f"{protocol}://{self.places[protocol]}"

    @property
    def admin(self) -> list[str]:
        """The arguments for publishing over HTTP."""
        token_file = str(self.data / "admin.token")
        return [f"http://{self.places['admin']}", "--admin-token-file", token_file]

    @property
    def alice(self) -> list[str]:
        """The arguments for signing on."""
        return ["--id", "alice", "--token", self.token]


class Result(NamedTuple):
    """What a run left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Lines of a process as they come, within a deadline."""
    assert process.stdout is not None
    until, text = time.monotonic() + DEADLINE_S, b""
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            raise AssertionError(f"nothing more came after {text!r}")
        piece = os.read(process.stdout.fileno(), 65536)
        if not piece:
            raise AssertionError(f"the process ended after {text!r}")
        text += piece
        *whole, text = text.split(b"\n")
        yield from (line.decode() for line in whole)


def _start(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "wirelake.cli", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the demo's services and one client."""
    from wirelake.hub.store import add_client

    data = tmp_path_factory.mktemp("hub")
    token = add_client(database_of(data), "alice")
    config = data / "hub.toml"
    names = ("esnp", "tny", "relay", "magline", "comet", "admin")
    config.write_text("".join(f"{name}.port = 0\n" for name in names) + configured(data))
    process = _start("hub", "--data", str(data), "--config", str(config), "--demo")
    try:
        places: dict[str, str] = {}
        for line in _lines(process):
            if line == "ready":
                break
            word, name, place = line.split()
            assert word == "listening"
            places[name] = place
        yield Hub(data, places, token)
    finally:
        _end(process)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process; `stdin` is what it reads."""
    monkeypatch.delenv("WIRELAKE_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")

    def run_here(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = main(args)
        return Result(code, *capfd.readouterr())

    return run_here


# -- options ----------------------------------------------------------------------------------

KEY = "11" * 32


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("magline://127.0.0.1:1",),
            "magline: expected exactly one of --key (the server's public key), --psk (a shared",
        ),
        (
            ("magline://127.0.0.1:1", "--key", "zz"),
            "--key: zz: no such file or directory; expected a readable file, or 64 hexadecimal",
        ),
        (
            ("esnp://127.0.0.1:1", "--key", KEY),
            "unknown option '--key' of esnp; expected one of --dialect, -o legacy_rows, -o r",
        ),
        (("comet://127.0.0.1:1", "--anonymous"), "unknown option '--anonymous' of comet; expected"),
        (("comet://127.0.0.1:1", "--key", KEY, "--plaintext"), "--key conflicts with --plaintext"),
        (("tny://127.0.0.1:1", "--dialect", "x"), "--dialect: expected one of seed, upstream"),
        (("tny://127.0.0.1:1", "--timeout", "nan"), "invalid --timeout nan; expected more than 0"),
        (("tny://a:b@127.0.0.1:1",), "credentials in a URL are not supported; use --id and --tok"),
    ],
)
def test_errors_name_the_options_of_the_command_line(
    run: Run, args: tuple[str, ...], message: str
) -> None:
    found = run("ping", *args)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"wirelake: {message}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("comet://127.0.0.1:1/x", "comet has no calls"),
        ("comet://127.0.0.1:1", "comet has no calls"),
        ("tny://127.0.0.1:1/test/add", "invalid target 'test/add'; expected the number of a serv"),
        ("tny://127.0.0.1:1/0x80000000", "invalid target '0x80000000'; expected a number up to 21"),
        ("magline://127.0.0.1:1", "magline://127.0.0.1:1: missing target, as in magline://127.0.0"),
        ("tny://127.0.0.1:1/", "tny://127.0.0.1:1/: missing target, as in tny://127.0.0.1:1/1002 "),
        ("esnp://127.0.0.1:1", "esnp://127.0.0.1:1: missing target, as in esnp://127.0.0.1:1/test"),
        ("esnp://127.0.0.1:1/add", "invalid target 'add'; expected a service and an operation, "),
        ("esnp://127.0.0.1:1/add?o=1/2", "invalid target 'add?o=1/2'; expected a service and an "),
    ],
)
def test_targets_are_checked_before_dialling(run: Run, url: str, message: str) -> None:
    found = run("call", url)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"wirelake: {message}")


@pytest.mark.parametrize("option", ["--stream", "--trace"])
def test_options_of_a_call_are_checked_before_dialling(run: Run, option: str) -> None:
    found = run("call", "tny://127.0.0.1:1/1002", option)
    assert found == (2, "", f"wirelake: tny has no {option}\n")
    found = run("call", "esnp://127.0.0.1:1/test/add", option)
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith("wirelake: 127.0.0.1:1: connection refused: no server listens")


def test_publishing_is_checked_before_dialling(run: Run) -> None:
    found = run("publish", "comet://127.0.0.1:1", "@news", "rain")
    assert found == (2, "", "wirelake: comet has no publish\n")


# -- call -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "target", "more"),
    [
        ("esnp", "test/add", []),
        ("tny", "1002", []),
        ("magline", "0x1002", ["--anonymous"]),
        ("magline", "4098", ["--key"]),
    ],
)
def test_call(run: Run, hub: Hub, protocol: str, target: str, more: list[str]) -> None:
    if more == ["--key"]:
        more = ["--key", str(hub.data / "magline.pub")]
    url = f"{hub.url(protocol)}/{target}"
    assert run("call", url, "a=1", "b=2", *hub.alice, *more) == (0, "c = 3\n", "")
    found = run("call", url, "a=1.5", "b=2", "--json", *hub.alice, *more)
    assert json.loads(found.out) == {"data": {"c": 3.5}}


@pytest.mark.parametrize(
    ("protocol", "target"), [("esnp", "test/add"), ("tny", "1002"), ("magline", "0x1002")]
)
def test_several_servers(run: Run, hub: Hub, protocol: str, target: str) -> None:
    place = hub.places[protocol]
    url = f"{protocol}://127.0.0.1:1,{place}"
    key = ["--key", str(hub.data / "magline.pub")] if protocol == "magline" else []
    assert run("call", f"{url}/{target}", "a=1", "b=2", *hub.alice, *key) == (0, "c = 3\n", "")
    found = run("ping", url, "--count", "1", *key)
    assert found.out.startswith(f"{place}: 1 in ")
    published = run("publish", url, "--client", "alice", "rain", *hub.alice, *key)
    assert published.out.endswith("for client alice\n")
    found = run("subscribe", url, "@unused", "--count", "1", "--json", *hub.alice, *key)
    assert json.loads(found.out)["content"] == "rain"
    assert f"subscribed to @unused at {place} as alice" in found.err


def test_several_servers_that_are_down(run: Run) -> None:
    found = run("call", "esnp://127.0.0.1:1,127.0.0.1:2/test/add", "a=1")
    assert (found.code, found.out) == (1, "")
    assert found.err.count("\n") == 1
    for place in ("127.0.0.1:1", "127.0.0.1:2"):
        assert f"{place}: connection refused: no server listens at this address" in found.err
    found = run("call", "esnp://127.0.0.1:1,/test/add", "a=1")
    assert (found.code, found.out) == (2, "")
    assert "esnp://127.0.0.1:1,/test/add: missing host" in found.err


def test_a_context_with_several_servers(
    run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    url = f"esnp://127.0.0.1:1,{hub.places['esnp']}"
    token = tmp_path / "token"
    token.write_text(hub.token)
    found = run("context", "add", "edge", "--url", url, "--id", "alice", "--token-file", str(token))
    assert found.code == 0
    assert run("call", "test/add", "a=1", "b=2") == (0, "c = 3\n", "")


def test_call_with_the_token_in_the_environment(
    run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIRELAKE_TOKEN", hub.token)
    found = run("call", hub.url("esnp") + "/test/echo", "x=[1,null]", "y=hi", "--id", "alice")
    assert found == (0, 'x = [1, null]\ny = "hi"\n', "")


def test_call_with_bytes(run: Run, hub: Hub) -> None:
    url = hub.url("tny") + "/1001"
    found = run("call", url, "--body", "-", *hub.alice, stdin=b"just text")
    assert found == (0, "just text\n", "")
    found = run("call", url, "--body", "-", "--json", *hub.alice, stdin=b"\xff\x00")
    assert json.loads(found.out) == {"data": {}, "body_hex": "ff00"}
    both = run("call", hub.url("esnp") + "/test/echo", "a=1", "--body", "-", *hub.alice, stdin=b"x")
    assert both.out == "a = 1\nx\n"


def test_call_shows_the_hops(run: Run, hub: Hub) -> None:
    url = hub.url("esnp") + "/test/add"
    found = run("call", url, "a=1", "b=2", "--trace", *hub.alice)
    assert (found.code, found.out) == (0, "c = 3\n")
    assert found.err.startswith("via ")


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline"])
def test_calls_that_fail(run: Run, hub: Hub, protocol: str) -> None:
    target = {"esnp": "test/fail", "tny": "1004", "magline": "0x1004"}[protocol]
    sign_on = [*hub.alice, *(["--anonymous"] if protocol == "magline" else [])]
    found = run("call", f"{hub.url(protocol)}/{target}", *sign_on)
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith("wirelake: ")
    assert found.err.count("\n") == 1
    slow = {"esnp": "test/sleep", "tny": "1003", "magline": "0x1003"}[protocol]
    sleep = f"{hub.url(protocol)}/{slow}"
    found = run("call", sleep, "ms=5000", *sign_on, "--timeout", "0.3")
    place = hub.places[protocol]
    assert found == (1, "", f"wirelake: {place}: no reply in time; --timeout waits longer\n")


def test_wrong_tokens_are_one_line(run: Run, hub: Hub) -> None:
    found = run("call", hub.url("tny") + "/1002", "--id", "alice", "--token", "throw-away")
    assert (found.code, found.out) == (1, "")
    assert "token" in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ("call",),
        ("call", "gopher://127.0.0.1/x"),
        ("call", "esnp://127.0.0.1:9"),
        ("call", "esnp://127.0.0.1:9/a/b", "novalue"),
        ("call", "esnp://127.0.0.1:99999/a/b"),
        ("call", "esnp://alice:secret@127.0.0.1/a/b"),
        ("call", "esnp://127.0.0.1:9/a/b", "--id", "alice"),
        ("call", "esnp://127.0.0.1:9/a/b", "--token", "throw-away"),
        ("call", "magline://127.0.0.1:9/1"),
        ("call", "magline://127.0.0.1:9/1", "--key", "beef"),
        ("call", "esnps://127.0.0.1:9/a/b", "--ca", "/does/not/exist"),
        ("publish", "esnp://127.0.0.1:9", "only one"),
        ("publish", "esnp://127.0.0.1:9", "@a", "b", "--client", "c"),
        ("publish", "http://127.0.0.1:9", "@a", "b"),
        ("publish", "http://127.0.0.1:9", "@a", "b", "--admin-token-file", "/does/not/exist"),
        ("subscribe", "esnp://127.0.0.1:9"),
        ("subscribe", "esnp://127.0.0.1:9", "@a", "--count", "0"),
        ("ping",),
        ("ping", "esnp:///x"),
    ],
)
def test_bad_usage(run: Run, args: tuple[str, ...]) -> None:
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert err.startswith("wirelake: ")
    assert err.count("\n") == 1
    assert "secret" not in err


def test_connection_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("throw-away\n")
    for args in (
        ("call", "tny://127.0.0.1:1/1"),
        ("ping", "comet://127.0.0.1:1"),
        ("subscribe", "esnp://127.0.0.1:1", "@a"),
        ("publish", "esnp://127.0.0.1:1", "@a", "b"),
        ("publish", "http://127.0.0.1:1", "@a", "b", "--admin-token-file", f"{tmp_path}/token"),
    ):
        code, out, err = run(*args)
        assert (code, out) == (1, "")
        assert "127.0.0.1:1: " in err
        assert "connection refused" in err.lower()


# -- publish and subscribe --------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline", "comet"])
def test_publish_and_subscribe(run: Run, hub: Hub, protocol: str) -> None:
    topic = f"@of-{protocol}"
    key = ["--key", str(hub.data / "magline.pub")] if protocol == "magline" else []
    sign_on = [*hub.alice, *key]
    process = _start("subscribe", hub.url(protocol), topic, "--count", "2", "--json", *sign_on)
    try:
        until = time.monotonic() + DEADLINE_S
        while run("publish", *hub.admin, topic, "rain", "--json").out.endswith('"audience": 0}\n'):
            assert time.monotonic() < until, "nobody subscribed"
        publisher = "tny" if protocol == "comet" else protocol
        found = run("publish", hub.url(publisher), topic, "-", *sign_on, stdin=b"\xff\x01")
        assert found.code == 0
        lines = _lines(process)
        first, second = (json.loads(next(lines)) for _ in range(2))
        assert first["content"] == "rain"
        assert first.get("topic") == (None if protocol == "comet" else topic)
        assert second["content_base64"] == "/wE="
        assert found.out == f"published {second['id']} to {topic}: 1 subscriber\n"
        assert process.wait(DEADLINE_S) == 0
    finally:
        _end(process)


def test_publish_prints_the_error_of_the_hub(run: Run, hub: Hub, tmp_path: Path) -> None:
    found = run("publish", *hub.admin, "no blanks", "x")
    assert (found.code, found.out) == (1, "")
    assert found.err.count("\n") == 1
    found = run("publish", hub.url("esnp"), "no blanks", "x", *hub.alice)
    assert found.code == 1
    (tmp_path / "token").write_text("throw-away\n")
    url = hub.admin[0]
    found = run("publish", url, "@a", "x", "--admin-token-file", str(tmp_path / "token"))
    assert found.code == 1
    assert "invalid admin token" in found.err
    assert "--admin-token-file" in found.err


def test_publish_once_and_to_one_client(run: Run, hub: Hub) -> None:
    twice = [
        run("publish", *hub.admin, "for alice", "--client", "alice", "--once", "k", "--json").out
        for _ in range(2)
    ]
    assert twice[0] == twice[1]
    shown = run("subscribe", hub.url("comet"), "--count", "1", *hub.alice)
    assert shown.out.endswith("  -  for alice\n")
    assert json.loads(twice[0])["id"] in shown.out


# -- ping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["esnp", "tny", "magline", "comet"])
def test_ping(run: Run, hub: Hub, protocol: str) -> None:
    key = ["--anonymous"] if protocol == "magline" else []
    args = ("ping", hub.url(protocol), *key, "--count", "2", "--interval", "0")
    found = run(*args)
    assert found.code == 0
    assert found.out.splitlines()[-1].startswith("2 sent, 2 answered; min/avg/max ")
    lines = [json.loads(line) for line in run(*args, "--json").out.splitlines()]
    assert [each["ping"] for each in lines] == [1, 2]
    assert all(each["ms"] >= 0 for each in lines)


@pytest.mark.parametrize(
    ("interrupted_at", "code", "summary"),
    [(3, 0, "3 sent, 2 answered; min/avg/max "), (1, 1, "1 sent, 0 answered")],
)
def test_ping_sums_up_on_ctrl_c(
    run: Run,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    interrupted_at: int,
    code: int,
    summary: str,
) -> None:
    count = 0

    async def interrupted(_: Client) -> float:
        nonlocal count
        count += 1
        if count == interrupted_at:
            raise KeyboardInterrupt
        return 0.001

    monkeypatch.setattr(Client, "ping", interrupted)
    found = run("ping", hub.url("tny"), "--count", "9", "--interval", "0")
    assert (found.code, found.err) == (code, "")
    assert found.out.splitlines()[-1].startswith(summary)


def test_ping_sums_up_when_the_server_stops_answering(
    run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([0.001])

    async def once(_: Client) -> float:
        try:
            return next(answers)
        except StopIteration:
            raise Timeout("no reply in time") from None

    monkeypatch.setattr(Client, "ping", once)
    found = run("ping", hub.url("tny"), "--count", "9", "--interval", "0")
    assert found.code == 1
    assert found.out.splitlines()[-1].startswith("2 sent, 1 answered; min/avg/max ")
    assert found.err == f"wirelake: {hub.places['tny']}: no reply in time; --timeout waits longer\n"


def test_ctrl_c_is_the_usual_end_of_subscribe(
    run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Client) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "notifications", interrupted)
    found = run("subscribe", hub.url("esnp"), "@news", *hub.alice)
    place = hub.places["esnp"]
    assert found == (
        0,
        "",
        f"wirelake: subscribed to @news at {place} as alice; press Ctrl-C to stop\n",
    )


# -- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ('{"a": [1]}', {"a": [1]}),
        ('"5"', "5"),
        ("hi", "hi"),
        ("", ""),
        ("007", 7),
        ("{broken", "{broken"),
    ],
)
def test_values_have_types(text: str, value: object) -> None:
    found = typed_value(text)
    assert (found, type(found)) == (value, type(value))


def test_bytes_for_people() -> None:
    assert body_text("día\n".encode()) == "día\n"
    assert body_text(b"\xff\x00") == "ff00"
    assert body_text(b"\x1b[31m") == "1b5b33316d"
