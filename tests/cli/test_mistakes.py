"""Mistakes of a new user: each prints one line with the cause and the remedy, at once.

`docs/guides/command-line.md` shows the same lines. No mistake waits for a timeout: where a server
is silent, the timeout is longer than the tests may take.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.hub.cli.started_hub import FREE_PORTS

from .conftest import Run
from .hub_in_thread import Hubs, hubs_in_thread

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"


class Mistake(NamedTuple):
    """A command line, what it prints on standard error, and its exit code."""

    typed: str
    line: str
    code: int = 2


MISTAKES = [
    # -- words
    Mistake(
        "raed tap.pcap",
        "unknown command 'raed'; expected one of …; did you mean read? (see wirelake --help)",
    ),
    Mistake(
        "capture inof tap.pcap",
        "unknown subcommand 'inof'; expected one of info, repair, redact; did you mean info?"
        " (see wirelake capture --help)",
    ),
    Mistake(
        "read tap.pcap --tabel calls",
        "unknown option '--tabel'; did you mean --table? (see wirelake read --help)",
    ),
    Mistake(
        "read tap.pcap --table call",
        "Invalid value for '--table': unknown value 'call'; expected one of …; did you mean calls?"
        " (see wirelake read --help)",
    ),
    Mistake(
        "read tap.pcap --columns traget",
        "--columns: unknown column 'traget'; expected one of …; did you mean target?"
        " (see wirelake read --help)",
    ),
    Mistake(
        "decode comte --hex 000106",
        "unknown protocol 'comte'; expected one of esnp, tny, relay, magline, comet…;"
        " did you mean comet?",
    ),
    Mistake(
        "decode comet --hex 000106",
        "missing --direction c2s or s2c: comet numbers its messages by direction"
        " (see wirelake decode --help)",
    ),
    # -- files
    Mistake("read missing.pcap", "missing.pcap: No such file or directory"),
    Mistake("read notes.txt", "notes.txt: not a capture: neither pcap nor pcapng", 1),
    Mistake(
        "ping magline://{magline} --key hub.pub",
        "--key: hub.pub: no such file or directory; expected a readable file, or 64 hexadecimal"
        " digits",
    ),
    Mistake(
        "ping esnps://{esnp} --ca ca.pem",
        "--ca: ca.pem: no such file or directory; expected a readable file",
    ),
    # -- servers
    Mistake(
        "ping esnp://{closed}",
        "{closed}: connection refused: no server listens at this address; start it, or check host"
        " and port",
        1,
    ),
    Mistake(
        "ping esnp://no-such-host.invalid:9600",
        "no-such-host.invalid:9600: unknown host 'no-such-host.invalid'; check its name",
        1,
    ),
    Mistake(
        "call esnp://{comet}/test/add a=1 b=2 --timeout 600",
        "{comet}: the server speaks comet, not esnp; check the port, or use comet://{comet}",
        1,
    ),
    Mistake(
        "ping comet://{admin} --timeout 600",
        "{admin}: this is an HTTP server, such as the admin address of a hub, and not comet; check"
        " the port",
        1,
    ),
    Mistake(
        "ping tny://{tny_tls} --timeout 600",
        "{tny_tls}: the server uses TLS; use tnys://{tny_tls}",
        1,
    ),
    Mistake(
        "ping comets://{comet} --timeout 600",
        "{comet}: the server does not use TLS; use comet://{comet}",
        1,
    ),
    Mistake(
        "ping esnps://{esnp_tls}",
        "{esnp_tls}: untrusted certificate: self-signed certificate; connect by a name in the"
        " certificate, and give its authority with --ca (tls)",
        1,
    ),
    Mistake(
        "top http://{tny} --token-file admin.token --once",
        "http://{tny}: not a hub's admin address: the server speaks tny; expected the address that"
        " the hub prints as `listening admin`",
        1,
    ),
    # -- credentials
    Mistake(
        "call esnp://{esnp}/test/add --id phone-1",
        "--id requires a token: give --token-file FILE or set WIRELAKE_TOKEN"
        " (see wirelake call --help)",
    ),
    Mistake(
        "call tny://{tny}/1002 --id phone-1 --token-file admin.token",
        "the id or the token is wrong (…)",
        1,
    ),
    Mistake(
        "publish http://{admin} @news rain --admin-token-file phone-1.token",
        "http://{admin}: invalid admin token; the hub's own is in admin.token in its data"
        " directory: give --admin-token-file",
        1,
    ),
    # -- calls
    Mistake(
        "call test/add a=1 b=2",
        "missing URL (PROTOCOL://HOST:PORT); `wirelake context add` saves one, and 'test/add' is"
        " none (see wirelake call --help)",
    ),
    Mistake(
        "call tny://{tny}/test/add a=1 b=2",
        "invalid target 'test/add'; expected the number of a service, such as 1002 or 0x1002",
    ),
    Mistake(
        "context use edge",
        "unknown context 'edge'; there are none; wirelake context add saves one",
    ),
    # -- the hub
    Mistake(
        "hub --data new --config free.toml --port comet={taken}",
        "comet: address 127.0.0.1:{taken} is already in use, perhaps by another hub: stop that"
        " program, or choose another port with --port comet=PORT or comet.port",
    ),
    Mistake(
        "hub --data new --port comte=9000",
        "unknown listener 'comte'; expected one of esnp, tny, relay, magline, comet, admin; did"
        " you mean comet? (see wirelake hub --help)",
    ),
    Mistake(
        "hub --data new --config typo.toml",
        "typo.toml: [comet]: unknown key 'prt'; expected one of …; did you mean port?",
    ),
    Mistake(
        "hub --data new --config tls.toml",
        "comet.tls.key: no.pem: no such file or directory; expected a PEM file",
    ),
    Mistake(
        "client list --data .",
        "hub.sqlite3: no such file: not the data directory of a hub; give it with --data",
    ),
]


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hubs]:
    with hubs_in_thread(tmp_path_factory.mktemp("hubs")) as found:
        yield found


@pytest.fixture
def names(hubs: Hubs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The names in braces: addresses of listeners, and one where nobody listens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wirelake.client.dial._PROBE_S", 20.0)  # on a busy machine
    monkeypatch.delenv("WIRELAKE_TOKEN", raising=False)
    # Set for the process of the command, which here is that of the tests.
    monkeypatch.setattr("os.umask", lambda _: 0)
    monkeypatch.setattr("wirelake.cli.commands.hub._log_to_stderr", lambda _: None)
    (tmp_path / "notes.txt").write_text("not a capture\n" * 100)
    (tmp_path / "tap.pcap").write_bytes(b"")
    for file in (hubs.token_file, hubs.admin_token_file):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "cert.pem").write_bytes(hubs.ca.read_bytes())
    (tmp_path / "free.toml").write_text(FREE_PORTS)
    (tmp_path / "typo.toml").write_text("[comet]\nprt = 9620\n")
    tls = '[comet]\ntls = { certificate = "cert.pem", key = "no.pem" }\n'
    (tmp_path / "tls.toml").write_text(FREE_PORTS.replace("[comet]\n", tls))
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield {
            **hubs.places,
            **{f"{name}_tls": place for name, place in hubs.tls_places.items()},
            "taken": str(taken.getsockname()[1]),
            "closed": f"127.0.0.1:{closed.getsockname()[1]}",
        }


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.typed)
def test_a_mistake_is_one_line(
    run: Run, names: dict[str, str], tmp_path: Path, mistake: Mistake
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    found = run(*mistake.typed.format(**names).split())
    pattern = ".*".join(re.escape(part) for part in mistake.line.format(**names).split("…"))
    assert re.fullmatch(f"wirelake: {pattern}\n", found.err), found.err
    assert found.code == mistake.code
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_stream_without_its_option(run: Run, names: dict[str, str]) -> None:
    signed = ("--id", "phone-1", "--token-file", "phone-1.token")
    url = f"esnp://{names['esnp']}/test/count"
    found = run("call", url, "to=3", *signed)
    assert found.code == 0
    assert found.err == "wirelake: the response is a stream; --stream prints each of its parts\n"
    found = run("call", url, "to=3", "--stream", *signed)
    assert found == (0, "n = 0\nn = 1\nn = 2\n", "")


def test_the_page_shows_every_mistake() -> None:
    rows = re.findall(r"^\| `wirelake (.+?)` \| (`.+?`) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [typed for typed, _ in rows] == [_shown(each.typed) for each in MISTAKES]
    assert [line for _, line in rows] == [f"`{_shown(each.line)}`" for each in MISTAKES]


_USUAL = {
    "esnp": "127.0.0.1:9600", "tny": "127.0.0.1:9610", "magline": "127.0.0.1:9757",
    "comet": "127.0.0.1:9620", "admin": "127.0.0.1:9680", "esnp_tls": "127.0.0.1:9600",
    "tny_tls": "127.0.0.1:9610", "taken": "9620", "closed": "127.0.0.1:9600",
}  # fmt: skip


def _shown(text: str) -> str:
    """A text as the page has it: with the usual ports, in a cell of a table."""
    return text.format(**_USUAL).replace("`", "'")
