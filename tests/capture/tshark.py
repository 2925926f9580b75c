"""A second opinion: what tshark reads in a capture file."""

from __future__ import annotations

import subprocess
from pathlib import Path


def fields(path: Path, *names: str) -> list[list[str]]:
    """The values of fields, segment by segment; custom blocks, which it lists too, are left out."""
    options = [part for name in names for part in ("-e", name)]
    out = _run("-r", str(path), "-n", "-Y", "tcp", "-T", "fields", *options)
    return [line.split("\t") for line in out.splitlines()]


def follow(path: Path, stream: int) -> tuple[bytes, bytes]:
    """The bytes of both directions of a TCP stream, client's first."""
    out = _run("-r", str(path), "-n", "-q", "-z", f"follow,tcp,raw,{stream}")
    body = out.split("Node 1:", 1)[1].split("\n", 1)[1].split("=====", 1)[0]
    lines = body.splitlines()
    client = b"".join(bytes.fromhex(line) for line in lines if not line.startswith("\t"))
    server = b"".join(bytes.fromhex(line.strip()) for line in lines if line.startswith("\t"))
    return client, server


def complaints(path: Path) -> list[str]:
    """What its experts warn of."""
    out = _run("-r", str(path), "-n", "-Y", "_ws.expert.severity >= 0x00600000 || _ws.malformed")
    return out.splitlines()


def _run(*arguments: str) -> str:
    done = subprocess.run(["tshark", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
