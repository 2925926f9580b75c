"""Mistakes of a new user: each prints one line with the cause and the remedy, at once.

`docs/guides/command-line.md` shows the same lines. No mistake waits for a timeout: where a server
is silent, the timeout is longer than the tests may take.
"""

from __future__ import annotations

import re
import socket
import sys
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
        "--table: unknown value 'call'; expected one of …; did you mean calls?"
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
        "'test/add' is not a URL; expected PROTOCOL://HOST:PORT, or a server saved by `wirelake"
        " context add` (see wirelake call --help)",
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
        "hub --data new --port 9000=comet",
        "invalid --port '9000=comet'; expected NAME=PORT with a port 0-65535, such as comet=9000"
        " (see wirelake hub --help)",
    ),
    Mistake(
        "read tap.pcap --port comet=9000",
        "invalid --port 'comet=9000'; expected PORT=PROTOCOL, such as 9000=comet (see wirelake"
        " read --help)",
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

_SIGNED = "--id phone-1 --token-file phone-1.token"
MORE = [
    # -- the hub
    Mistake(
        "hub --data new --config free.toml --services broken:services",
        "--services: …broken.py, line 1: SyntaxError: …",
    ),
    Mistake(
        "hub --data new --config free.toml --services raising:services",
        "--services: …raising.py, line 2: ValueError: no database",
    ),
    Mistake(
        "hub --data new --config free.toml --services shop:servces",
        "--services: unknown name 'servces' of shop; expected services",
    ),
    Mistake(
        "hub --data new --config free.toml --services shop.py:services",
        "invalid --services 'shop.py:services'; expected MODULE:NAME, as in shop:services"
        " (see wirelake hub --help)",
    ),
    Mistake(
        "hub --data new --config free.toml --port esnp={free} --port comet={free}",
        "comet: port {free} is also the port of esnp: choose another port with --port comet=PORT"
        " or comet.port",
    ),
    Mistake(
        "hub --data new --config free.toml --port esnp={free} --port esnp=0",
        "duplicate --port 'esnp' (see wirelake hub --help)",
    ),
    Mistake(
        "hub --data new --config off.toml",
        "every listener is disabled; expected enabled = true for one of esnp, tny, relay, magline,"
        " comet, admin",
    ),
    Mistake("hub --data new --config pem.toml", "comet.tls: notes.txt: not a PEM certificate"),
    Mistake("hub --data new --config key.toml", "comet.tls: notes.txt: not a PEM private key"),
    Mistake(
        "hub --data new --config pattern.toml",
        "pattern.toml: rights.clients[0].publish[0]: invalid pattern 'news'; expected a topic that"
        " begins with @, with * or **",
    ),
    Mistake(
        "hub --data new --config free.toml --services ./shop.py:services",
        "invalid --services './shop.py:services'; expected MODULE:NAME, as in shop:services"
        " (see wirelake hub --help)",
    ),
    Mistake(
        "hub --data new --config free.toml --services shp:services",
        "--services: No module named 'shp' in the working directory or on Python's path",
    ),
    Mistake(
        "client add anna --data notes.txt",
        "--data: notes.txt: not a folder; choose another one",
    ),
    Mistake("call tny://{tny}/777 a=1 " + _SIGNED, "no such protocol (205)", 1),
    Mistake(
        "client list --data nowhere",
        "nowhere: no such directory; give the hub's data directory with --data",
    ),
    # -- calls
    Mistake(
        f"call esnp://{{esnp}}/test/add a=1 a=2 {_SIGNED}",
        "duplicate argument 'a' (see wirelake call --help)",
    ),
    Mistake(f"call esnp://{{esnp}}/test/add a=1 {_SIGNED}", "missing argument 'b'", 1),
    Mistake(
        f"call tny://{{tny}}/1002 a=1 b=2 c=3 {_SIGNED}",
        "unknown argument 'c'; expected one of a, b (500)",
        1,
    ),
    Mistake(
        f"call esnp://{{esnp}}/test/add a=1 b=x {_SIGNED}",
        "argument 'b': expected int | float, got str",
        1,
    ),
    Mistake(
        f"call esnp://{{esnp}}/test/add --field bogus=1 {_SIGNED}",
        "esnp: unknown field 'bogus'; expected one of …",
    ),
    Mistake(
        "call esnp://{esnp}/test/add a=1 b=2",
        "auth required; give --id and --token-file",
        1,
    ),
    Mistake("call tny://{tny}/1002 a=1 b=2", "…; give --id and --token-file", 1),
    Mistake(
        f"ping magline://{{magline}} --key {'0' * 64}",
        "the server has another key; check --key (7)",
        1,
    ),
    # -- addresses
    Mistake(
        "call espn://{esnp}/test/add",
        "espn://{esnp}/test/add: expected a URL with one of …; did you mean esnp?",
    ),
    Mistake(
        "ping esnp://127.0.0.1:96:00",
        "esnp://127.0.0.1:96:00: invalid port or address; expected PROTOCOL://HOST:PORT",
    ),
    Mistake("ping esnp://127.0.0.1:0", "esnp://127.0.0.1:0: invalid port 0; expected 1-65535"),
    Mistake(
        "publish http://{admin}/v1 @news rain --admin-token-file admin.token",
        "http://{admin}/v1: no hub at the path /v1; use http://{admin}",
        1,
    ),
    Mistake(
        "top http://{admin}:99 --token-file admin.token --once",
        "http://{admin}:99: invalid port or address; expected the hub's admin address, such as"
        " http://127.0.0.1:9680 (see wirelake top --help)",
    ),
]
"""Mistakes that the page does not show."""


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
    (tmp_path / "broken.py").write_text("def price(:\n")
    (tmp_path / "raising.py").write_text('\nraise ValueError("no database")\n')
    (tmp_path / "shop.py").write_text(
        "from wirelake.hub.rpc.services import Services\n\nservices = Services()\n"
    )
    tables = ("esnp", "tny", "relay", "magline", "comet", "admin")
    (tmp_path / "off.toml").write_text("".join(f"[{name}]\nenabled = false\n" for name in tables))
    (tmp_path / "pattern.toml").write_text('[[rights.clients]]\nids = ["a"]\npublish = ["news"]\n')
    for name, files in (
        ("pem", 'certificate = "notes.txt", key = "cert.pem"'),
        ("key", 'certificate = "cert.pem", key = "notes.txt"'),
    ):
        table = f"[comet]\ntls = {{ {files} }}\n"
        (tmp_path / f"{name}.toml").write_text(FREE_PORTS.replace("[comet]\n", table))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setattr("sys.path", sys.path[:])
    for module in ("broken", "raising", "shop"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        free = unused.getsockname()[1]
    (tmp_path / "typo.toml").write_text("[comet]\nprt = 9620\n")
    tls = '[comet]\ntls = { certificate = "cert.pem", key = "no.pem" }\n'
    (tmp_path / "tls.toml").write_text(FREE_PORTS.replace("[comet]\n", tls))
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield {
            **hubs.places,
            **{f"{name}_tls": place for name, place in hubs.tls_places.items()},
            "taken": str(taken.getsockname()[1]),
            "free": str(free),
            "closed": f"127.0.0.1:{closed.getsockname()[1]}",
        }


@pytest.mark.parametrize("mistake", [*MISTAKES, *MORE], ids=lambda each: each.typed)
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
