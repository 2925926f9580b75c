"""Where tokens appear in recordings, as the security page states.

When a test here fails because a token is hidden that was not, change the page with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.hub.running import running

from wirelake.cli.main import main
from wirelake.client import connect

Command = Callable[..., str]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
OPTIONS: dict[str, dict[str, Any]] = {
    "esnp": {},
    "tny": {},
    "magline": {"anonymous": True},
    "comet": {"allow_plaintext": True},
}


class Recorded(NamedTuple):
    """A recording in which a client of each protocol signs on."""

    file: Path
    ports: list[str]
    """As options of commands."""
    tokens: dict[str, str]
    """By protocol."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("signing-on")
    return asyncio.run(_record(folder))


async def _record(folder: Path) -> Recorded:
    record = {"folder": str(folder), "keys": True}
    async with running(
        clients=list(OPTIONS), listeners=list(OPTIONS), record=record, magline={"anonymous": True}
    ) as it:
        ports = []
        for protocol, options in OPTIONS.items():
            host, port = it.address(protocol)
            ports += ["--port", f"{port}={protocol}"]
            url, token = f"{protocol}://{host}:{port}", it.tokens[protocol]
            async with connect(url, id=protocol, token=token, **options):
                pass
        tokens = dict(it.tokens)
    (file,) = folder.glob("*.pcapng")
    return Recorded(file, ports, tokens)


@pytest.fixture
def wirelake(capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a command, and returns what it prints.

    In this process: a new one may compile kernels for minutes while other tests use the cores.
    """

    def run(*arguments: str | Path) -> str:
        capfd.readouterr()
        code = main([*map(str, arguments)])
        out, err = capfd.readouterr()
        assert code == 0, err
        return out

    return run


def places(wirelake: Command, recorded: Recorded, file: Path, *more: str) -> dict[str, list[str]]:
    """By protocol: the columns of `messages` in which its token is."""
    found: dict[str, list[str]] = {name: [] for name in recorded.tokens}
    text = wirelake("read", file, "--json", *recorded.ports, *more)
    assert text
    for row in map(json.loads, text.splitlines()):
        for protocol, token in recorded.tokens.items():
            found[protocol] += [key for key, value in row.items() if token in json.dumps(value)]
    return found


def test_recordings_contain_tokens_and_tables_do_not(recorded: Recorded, wirelake: Command) -> None:
    raw = recorded.file.read_bytes()
    clear = {name for name, token in recorded.tokens.items() if token.encode() in raw}
    assert clear == {"esnp", "tny", "comet"}
    assert not any(places(wirelake, recorded, recorded.file).values())
    assert places(wirelake, recorded, recorded.file, "--reveal") == {
        "esnp": ["esnp"], "tny": ["body"], "magline": ["body"], "comet": ["comet"],
    }  # fmt: skip


def test_redacted_copies_contain_no_tokens(
    recorded: Recorded, wirelake: Command, tmp_path: Path
) -> None:
    for name, options in (("plain", []), ("bodies", ["--bodies"])):
        copy = tmp_path / f"{name}.pcapng"
        wirelake("capture", "redact", recorded.file, "-o", copy, *options, *recorded.ports)
        raw = copy.read_bytes()
        assert not any(token.encode() in raw for token in recorded.tokens.values())
        assert not any(places(wirelake, recorded, copy, "--reveal").values())


def test_the_page_names_where_tokens_are_still_readable() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for place in ("`faults.bytes`", "Wireshark", "recordings", "0.1.0"):
        assert place in page.partition("Tokens are still readable")[2]
