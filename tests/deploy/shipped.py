"""The files of deploy/, and a parser of their command lines with the real commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from wirelake import __version__
from wirelake.cli.app import load

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
LISTENERS = ("esnp", "tny", "relay", "magline", "comet", "admin")
CONFIGS = {folder: DEPLOY / folder / "hub.toml" for folder in ("compose", "kubernetes", "systemd")}
"""Configurations that are shipped."""
POSTGRESQL = DEPLOY / "kubernetes" / "postgresql" / "hub.toml"
"""The configuration of hubs with PostgreSQL."""
IMAGES = {f"wirelake/{name}:{__version__}" for name in ("hub", "lake")}
"""Names of the images."""


def options(words: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line, parsed by the real command without running it."""
    name, *rest = words
    command = load(name)
    if isinstance(command, click.Group) and rest:
        below = command.get_command(click.Context(command, **command.context_settings), rest[0])
        command, rest = (command, rest) if below is None else (below, rest[1:])
    context = command.make_context(name, list(rest))
    left = [*getattr(context, "_protected_args", ()), *context.args]
    if left:
        raise click.UsageError(f"left over: {left}")
    return context.params


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def here(config: Path, folder: Path, tls: dict[str, str] | None = None) -> str:
    """Return a shipped configuration with files in this folder and free ports."""
    text = config.read_text(encoding="utf-8").replace("/var/lib/wirelake", str(folder))
    if tls is not None:
        text = text.replace("/etc/wirelake/tls/tls.crt", tls["certificate"])
        text = text.replace("/etc/wirelake/tls/tls.key", tls["key"])
    for listener in LISTENERS:
        text, found = re.subn(rf"(?m)^\[{listener}\]$", f"[{listener}]\nport = 0", text)
        text += "" if found else f"\n[{listener}]\nport = 0\n"
    return text
