"""The services that a command line names as MODULE:NAME."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .errors import BAD_USAGE, CommandError

if TYPE_CHECKING:
    from wirelake.hub.rpc.services import Services

__all__ = ["named_services"]


def named_services(option: str, named: str) -> Services:
    """Import the services at MODULE:NAME; the working directory is on the import path.

    `option` is what a message calls it.
    """
    import importlib

    from wirelake.hub.rpc.services import Services
    from wirelake.wire.errors import unknown

    module, _, name = named.partition(":")
    if module.endswith(".py"):
        module = module.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise click.UsageError(
            f"invalid {option} {named!r}; expected MODULE:NAME, as in {module}:{name or 'services'}"
        )
    if not all(map(str.isidentifier, (*module.split("."), name))):
        raise click.UsageError(f"invalid {option} {named!r}; expected MODULE:NAME")
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        where = " in the working directory or on Python's path" if error.name == module else ""
        raise CommandError(f"{option}: {error}{where}", BAD_USAGE) from error
    # The module is the user's: whatever it raises is no internal error.
    except Exception as error:
        raise CommandError(
            f"{option}: {_place(error)}: {type(error).__name__}: {getattr(error, 'msg', error)}",
            BAD_USAGE,
        ) from error
    found = getattr(imported, name, None)
    if isinstance(found, Services):
        return found
    if found is not None:
        raise CommandError(
            f"{option}: {named} is not a wirelake.hub.rpc.services.Services", BAD_USAGE
        )
    known = [each for each, value in vars(imported).items() if isinstance(value, Services)]
    raise CommandError(f"{option}: {unknown('name', name, known, of=module)}", BAD_USAGE)


def _place(error: Exception) -> str:
    """Return file and line of the last frame of an error; of a syntax error, its own."""
    import traceback

    import wirelake

    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"

    ours = str(Path(wirelake.__file__).parent)
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if not each.filename.startswith((ours, "<"))
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "import"
