"""The hub as `benchmarks.hub` runs it: its own command, tokens for all, every listener open."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

from wirelake.hub.store.accounts import new_token, token_hash
from wirelake.hub.store.migrations import connect

from .hub_servers import Server, started

__all__ = ["OurHub", "hub"]

_CONFIG = """\
[esnp]
port = 0
{tls}
[tny]
port = 0
[relay]
port = 0
[magline]
port = 0
anonymous = true
[comet]
port = 0
{comet_tls}
[admin]
port = 0
[limits]
inbox = 100000000
"""
"""As it comes, but for one limit: a hundred clients that never fetch anything would otherwise have
dead letters after ten thousand publishes."""
_TLS = """\
[{name}.tls]
certificate = "{folder}/certificate.pem"
key = "{folder}/key.pem"
"""


@dataclass(frozen=True)
class OurHub(Server):
    """A hub that runs."""

    data: Path
    clients: Path
    """A file with an id and a token in each line."""

    def publish(self, topic: str, content: str) -> int:
        """Publishes over HTTP; for how many it was."""
        token = (self.data / "admin.token").read_text(encoding="utf-8").strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['admin']}/v1/publish",
            json.dumps({"topic": topic, "content": content}).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.load(answer)["audience"])


@contextmanager
def hub(
    folder: Path, core: int, clients: int, *, tls: bool = False, record: Path | None = None
) -> Iterator[OurHub]:
    """A hub that takes connections of so many clients."""
    folder.mkdir(parents=True)
    data, config = folder / "data", folder / "hub.toml"
    config.write_text(_config(folder, tls), encoding="utf-8")
    listed = _add_clients(data, folder / "clients", clients)
    words = [sys.executable, "-m", "wirelake.cli", "hub", "--data", str(data)]
    words += ["--config", str(config), "--demo"]
    if record is not None:
        words += ["--record", str(record)]
    with started(words, folder, core) as process:
        ports = _ports(process, folder)
        yield OurHub("wirelake", process, ports, data, listed)


def _ports(process: Popen[str], folder: Path) -> dict[str, int]:
    """Reads what the hub says until it is ready."""
    assert process.stdout is not None
    ports = {}
    for line in process.stdout:
        words = line.split()
        if words[:1] == ["listening"]:
            ports[words[1]] = int(words[2].rpartition(":")[2])
        elif words == ["ready"]:
            return ports
    log = (folder / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"the hub does not start: {log[-2000:]}")


def _add_clients(data: Path, listed: Path, count: int) -> Path:
    """As `add_client` does, with one commit for all: ten thousand would take minutes."""
    data.mkdir(mode=0o700)
    tokens = {f"load-{number:06}": new_token() for number in range(count)}
    rows = [
        (name, token_hash(token), time.time_ns() // 1_000_000) for name, token in tokens.items()
    ]
    with closing(connect(data / "hub.sqlite3")) as db:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO clients (id, token, created_ms) VALUES (?, ?, ?)", rows)
        db.execute("COMMIT")
    lines = (f"{name} {token}\n" for name, token in tokens.items())
    listed.write_text("".join(lines), encoding="utf-8")
    return listed


def _config(folder: Path, tls: bool) -> str:
    if not tls:
        return _CONFIG.format(tls="", comet_tls="")
    _make_certificate(folder)
    return _CONFIG.format(
        tls=_TLS.format(name="esnp", folder=folder),
        comet_tls=_TLS.format(name="comet", folder=folder),
    )


def _make_certificate(folder: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
