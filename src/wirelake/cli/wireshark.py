"""Wireshark's personal folders: the dissector and its coloring rules in them, and out of them.

The plugin folder gets one file, which carries a mark: a file without it is never overwritten or
removed. The rules become the first lines of `colorfilters`; lines of other rules stay as they are.
Without such a file Wireshark uses the one that it came with, so its rules are copied, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from wirelake.wire.views.colorfilters import PREFIX
from wirelake.wire.views.lua import MARK

from .errors import BAD_USAGE, CommandError

__all__ = ["Folders", "find_folders", "install", "install_rules", "uninstall", "uninstall_rules"]

FILE: Final = "wirelake.lua"
"""The dissector in the plugin folder."""
RULES: Final = "colorfilters"
"""The coloring rules in the configuration folder."""
_PROGRAMS: Final = ("tshark", "wireshark")
_TIMEOUT_S: Final = 60
"""Wireshark loads its plugins before it prints its folders: seconds on a busy machine."""


class Folders(NamedTuple):
    """Folders of Wireshark."""

    plugins: Path
    configuration: Path
    defaults: Path
    """The configuration that Wireshark came with."""


def find_folders() -> Folders:
    """Ask tshark, or wireshark, for its folders. Raises CommandError."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise CommandError(
            "neither tshark nor wireshark is installed; name the plugin folder with --folder",
            BAD_USAGE,
        )
    command = [program, "-G", "folders"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(
            f"{' '.join(command)} failed; name the plugin folder with --folder: {error}"
        ) from error
    found = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, _, path = line.partition(":")
        found[name.strip().lower()] = path.strip()
    plugins = found.get("personal lua plugins") or found.get("personal plugins")
    own, global_ = found.get("personal configuration"), found.get("global configuration")
    if not plugins or not own or not global_:
        raise CommandError(
            f"{' '.join(command)} names no personal folders; name the plugin folder with --folder"
        )
    return Folders(Path(plugins), Path(own), Path(global_))


# -- the dissector -------------------------------------------------------------------------------


def install(script: str, folder: Path) -> Path:
    """Write the dissector into a plugin folder and return its path. Raises CommandError."""
    path = folder / FILE
    _check_ours(path, "remove it, or name another folder with --folder")
    folder.mkdir(parents=True, exist_ok=True)
    _replace(path, script)
    return path


def uninstall(folder: Path) -> Path | None:
    """Remove the dissector from a plugin folder; return its path if it was there."""
    path = folder / FILE
    if not path.exists():
        return None
    _check_ours(path, "it is left as it is")
    path.unlink()
    return path


def _check_ours(path: Path, advice: str) -> None:
    if path.exists() and not (path.is_file() and MARK in _read(path)):
        raise CommandError(f"{path} was not written by wirelake dissector; {advice}")


# -- coloring rules ------------------------------------------------------------------------------


def install_rules(rules: str, folders: Folders) -> Path:
    """Put the rules before those that Wireshark uses now; return the path of the file."""
    path = folders.configuration / RULES
    source = path if path.exists() else folders.defaults / RULES
    others = _others(_read(source)) if source.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, rules + others)
    return path


def uninstall_rules(folders: Folders) -> Path | None:
    """Remove the rules; return the path of the file if they were there."""
    path = folders.configuration / RULES
    if not path.exists() or (others := _others(before := _read(path))) == before:
        return None
    defaults = folders.defaults / RULES
    if not others or (defaults.exists() and others == _read(defaults)):
        path.unlink()  # it was made by `install_rules`
    else:
        _replace(path, others)
    return path


def _others(rules: str) -> str:
    """Return the rules without ours; Wireshark marks one that is switched off with `!`."""
    starts = (f"@{PREFIX}", f"!@{PREFIX}")
    return "".join(line for line in rules.splitlines(keepends=True) if not line.startswith(starts))


# -- files ---------------------------------------------------------------------------------------


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _replace(path: Path, text: str) -> None:
    """Write a file at once: Wireshark, or a crash, must not meet half of it."""
    real = path.resolve()  # a link stays one
    part = real.with_name(f"{real.name}.{os.getpid()}.part")
    try:
        part.write_bytes(text.encode("utf-8", "surrogateescape"))
        part.replace(real)
    finally:
        part.unlink(missing_ok=True)
