"""The client without asyncio: its methods, threads, Ctrl-C, and where a loop runs already."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from wirelake.client import BadCall, CallFailed, Client, ConnectionLost, Timeout
from wirelake.client.errors import Unreachable
from wirelake.client.sync import SyncClient, connect

from .session_servers import DEADLINE_S, PINNED, TOKEN, Stand
from .test_client_calls import CALLING, EVERY, TARGETS


class Served:
    """A server in a thread of its own."""

    def __init__(self, stand: Stand, loop: asyncio.AbstractEventLoop):
        self.stand = stand
        self.loop = loop

    def do(self, work: Any) -> Any:
        """Runs a function, or a coroutine function, in the thread of the server."""

        async def run() -> Any:
            found = work()
            return await found if inspect.isawaitable(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(DEADLINE_S)

    def client(self, **options: Any) -> SyncClient:
        """A client of it."""
        key = {"pinned": PINNED} if self.stand.protocol == "magline" else {}
        given = {"id": "alice", "token": TOKEN, "backoff_s": 0.01, **key, **options}
        return connect(self.stand.url, **given)


@contextmanager
def served(protocol: str) -> Iterator[Served]:
    """A server that runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    found: list[Served] = []

    async def start() -> None:
        found.append(Served(Stand(protocol), loop))
        await found[0].stand.start()

    asyncio.run_coroutine_threadsafe(start(), loop).result(DEADLINE_S)
    try:
        yield found[0]
    finally:
        found[0].do(found[0].stand.stop)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def until(condition: Any) -> None:
    """Waits until something is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def public(kind: type) -> dict[str, Any]:
    """The methods and properties of a class, by name."""
    return {name: each for name, each in inspect.getmembers(kind) if not name.startswith("_")}


def test_the_methods_are_those_of_the_client() -> None:
    ours, theirs = public(SyncClient), public(Client)
    internal = {"prepare", "on_dialled", "on_ready", "on_finished", "notified", "pushed", "replied"}
    states = {"busy", "full", "silent", "resumed", "protocol"}
    assert set(theirs) - set(ours) == internal | states
    assert set(ours) - set(theirs) == {"connects"}  # an attribute of the client's objects
    for name, method in ours.items():
        if not inspect.isfunction(method):
            continue
        same = inspect.signature(method), inspect.signature(theirs[name])
        assert same[0].parameters == same[1].parameters, name
        returned = str(same[1].return_annotation).replace("AsyncIterator", "Iterator")
        assert str(same[0].return_annotation) == returned, name
        assert inspect.getdoc(method)


@pytest.mark.parametrize("protocol", CALLING)
def test_calls_and_publishes(protocol: str) -> None:
    with served(protocol) as it, it.client() as c:
        target = TARGETS[protocol]
        assert c.connected
        assert (c.connects, c.address.port) == (1, it.stand.port)
        assert c.call(target["add"], {"a": 1, "b": 2}).data == {"c": 3}
        assert c.ping() >= 0
        assert c.publish("hi", topic="@news").audience == 3
        with pytest.raises(CallFailed):
            c.call(target["fail"])
        with pytest.raises(Timeout):
            c.call(target["silence"], timeout_s=0.05)
        with pytest.raises(BadCall):
            c.publish("hi")


@pytest.mark.parametrize("protocol", EVERY)
def test_notifications(protocol: str) -> None:
    with served(protocol) as it, it.client() as c:
        c.subscribe("@news", "@more")
        c.unsubscribe("@more")
        wanted = [it.do(lambda: it.stand.notify(b"rain")) for _ in range(2)]
        found = []
        for each in c.notifications():
            found.append(each.id)
            c.ack(each)
            if len(found) == 2:
                break
        assert found == wanted
        it.do(it.stand.cut)
        until(lambda: c.connects == 2)
        wanted = [it.do(lambda: it.stand.notify(b"sun"))]
        assert [next(c.notifications()).id] == wanted
        if protocol == "comet":
            assert [each.id for each in c.fetch()] == wanted


def test_the_rest_of_the_methods() -> None:
    with served("esnp") as it, it.client() as c:
        assert c.info("test/kind").data["kind"] == "INFO"
        assert [part.data["n"] for part in c.stream("test/count")] == [1, 2, 3]
        for part in c.stream("test/count"):
            assert part.data == {"n": 1}
            break
        c.announce("test/happened", {"what": "rain"})
        until(lambda: ("test/happened", {"what": "rain"}) in it.stand.heard)
        with ThreadPoolExecutor() as threads:
            push = threads.submit(next, c.pushes())
            until(lambda: c._client is not None and c._client._pushes_wanted)
            it.do(lambda: it.stand.push_own(7, b"seven"))
            assert push.result(DEADLINE_S).body == b"seven"
        for refused in (c.fetch, c.topics, c.report):
            with pytest.raises(BadCall, match="esnp"):
                refused()


def test_threads_share_a_client() -> None:
    with served("tny") as it, it.client(max_calls=4) as c, ThreadPoolExecutor(16) as threads:
        sums = threads.map(lambda n: c.call(2, {"a": n, "b": n}).data["c"], range(100))
        assert list(sums) == [2 * n for n in range(100)]


def test_closing_ends_what_other_threads_wait_for() -> None:
    with served("tny") as it, ThreadPoolExecutor() as threads:
        c = it.client()
        c.open()
        call = threads.submit(c.call, 4)
        rest = threads.submit(list, c.notifications())
        until(lambda: "silence" in it.stand.names())
        c.close()
        c.close()  # does nothing
        with pytest.raises(ConnectionLost):
            call.result(DEADLINE_S)
        assert rest.result(DEADLINE_S) == []
        with pytest.raises(BadCall, match="open the client first"):
            c.call(2)
        with c:  # and again
            assert c.call(2, {"a": 1, "b": 1}).data == {"c": 2}
            with pytest.raises(BadCall, match="already open"):
                c.open()
        assert not [each for each in threading.enumerate() if each.name == "wirelake-client"]


def test_a_server_that_is_down_leaves_no_thread() -> None:
    with served("tny") as it:
        pass
    c = it.client()
    for _ in range(2):
        with pytest.raises(Unreachable, match="connection refused"):
            c.open()
    assert not [each for each in threading.enumerate() if each.name == "wirelake-client"]


def test_where_a_loop_runs_already() -> None:
    """As in a notebook, whose cells run in a loop."""
    with served("esnp") as it:

        async def cell() -> Any:
            with it.client() as c:
                return c.call("test/add", {"a": 1, "b": 2}).data

        assert asyncio.run(cell()) == {"c": 3}


@contextmanager
def script(source: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """A program that gets the URL and the token."""
    command = [sys.executable, "-W", "always", "-c", textwrap.dedent(source), url, TOKEN]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


WAITING = """
    import sys
    from wirelake.client.sync import connect

    with connect(sys.argv[1], id="alice", token=sys.argv[2]) as c:
        try:
            print("waiting", flush=True)
            {wait}
        except KeyboardInterrupt:
            print("interrupted", c.call(2, {{"a": 1, "b": 2}}).data, flush=True)
        print(next(c.notifications()).text)
"""


@pytest.mark.parametrize("wait", ["next(c.notifications())", "c.call(4)", "next(c.pushes())"])
def test_ctrl_c(wait: str) -> None:
    with served("tny") as it, script(WAITING.format(wait=wait), it.stand.url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        if wait == "c.call(4)":
            until(lambda: "silence" in it.stand.names())
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted {'c': 3}\n"
        it.do(lambda: it.stand.notify(b"rain"))  # for who waits now, not for who waited
        out, errors = process.communicate(timeout=DEADLINE_S)
        assert (out, errors, process.returncode) == ("rain\n", "", 0)


NEVER_CAUGHT = """
    import sys
    from wirelake.client.sync import connect

    print("starts", flush=True)
    with connect(sys.argv[1], id="alice", token=sys.argv[2]) as c:
        for each in c.notifications():
            print(each.text, flush=True)
"""


@pytest.mark.parametrize("mute", [False, True])
def test_a_script_that_ends_with_ctrl_c(mute: bool) -> None:
    """While it iterates, and while it signs on."""
    with served("tny") as it:
        it.stand.mute = mute
        with script(NEVER_CAUGHT, it.stand.url) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "starts\n"
            until(lambda: it.stand.peers)
            if not mute:
                until(lambda: "auth" in it.stand.names())
                it.do(lambda: it.stand.notify(b"rain"))
                assert process.stdout.readline() == "rain\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=DEADLINE_S)
            until(lambda: not it.stand.peers)
        lines = errors.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert lines[-1] == "KeyboardInterrupt"
        for trouble in ("Task", "never", "Warning", "ignored"):
            assert trouble not in errors


NOT_CLOSED = """
    import sys
    from wirelake.client.sync import connect

    c = connect(sys.argv[1], id="alice", token=sys.argv[2])
    c.open()
    print(c.call(2, {"a": 1, "b": 2}).data)
"""


def test_a_script_that_does_not_close_its_client_ends() -> None:
    with served("tny") as it, script(NOT_CLOSED, it.stand.url) as process:
        out, _ = process.communicate(timeout=DEADLINE_S)
        assert (out, process.returncode) == ("{'c': 3}\n", 0)
