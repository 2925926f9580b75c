"""`python -m wirelake.wire.generate [--check]`: write the committed codecs.

One file for each package under `wirelake.protocols`, in its default dialect. Codecs of other
dialects are generated into the cache folder on first use (`dynamic.load_codec`).
"""

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
"""Packages under `wirelake.protocols` and the protocols that each declares."""


def sources() -> dict[Path, str]:
    """Return the committed files with the content that each should have."""
    contents = {}
    for package, names in FAMILIES.items():
        module = importlib.import_module(f"wirelake.protocols.{package}.protocol")
        protocols = [getattr(module, name) for name in names]
        folder = Path(str(module.__file__)).parent
        default = protocols[0].dialects[0]
        contents[folder / f"codec_{default}.py"] = codec_source(protocols, default)
    return contents


def stale() -> list[Path]:
    """Return the committed files whose content is out of date."""
    return [
        path
        for path, source in sources().items()
        if not path.exists() or path.read_text(encoding="utf-8") != source
    ]


def main() -> int:
    """Write the files that are out of date; with --check, only list them."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.wire.generate", description=main.__doc__
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file is out of date"
    )
    check = parser.parse_args().check
    contents = sources()
    for path in stale():
        print(("stale: " if check else "wrote ") + path.name, path.parent.name)
        if check:
            return 1
        path.write_text(contents[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
