"""`python -m wirelake.wire.generate [--check]`: writes the codecs of this package's protocols."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from .module import codec_source

FAMILIES = {
    "esnp": ("PROTOCOL",),
    "tny": ("PROTOCOL", "RELAY"),
    "magline": ("PROTOCOL",),
    "comet": ("PROTOCOL",),
}
"""Packages under `wirelake.protocols`, and the protocols that each declares."""


def sources() -> dict[Path, str]:
    """Every generated file and what it should contain."""
    wanted = {}
    for package, names in FAMILIES.items():
        layout = importlib.import_module(f"wirelake.protocols.{package}.layout")
        protocols = [getattr(layout, name) for name in names]
        folder = Path(str(layout.__file__)).parent
        for dialect in protocols[0].dialects:
            wanted[folder / f"codec_{dialect}.py"] = codec_source(protocols, dialect)
    return wanted


def stale() -> list[Path]:
    """Generated files that do not say what they should."""
    return [
        path
        for path, source in sources().items()
        if not path.exists() or path.read_text(encoding="utf-8") != source
    ]


def main() -> int:
    """Writes what is stale, or with --check only names it."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.wire.generate", description=main.__doc__
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    check = parser.parse_args().check
    wanted = sources()
    for path in stale():
        print(("stale: " if check else "wrote ") + path.name, path.parent.name)
        if check:
            return 1
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
