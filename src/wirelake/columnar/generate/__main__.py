"""`python -m wirelake.columnar.generate [--check]`: writes the built-in protocols' kernels."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wirelake.protocols import registry

from .module import kernel_source

FOLDER = Path(__file__).parent.parent / "kernels"


def sources() -> dict[Path, str]:
    """Each file that belongs to the package, and what it should hold."""
    found = {}
    for name in registry.BUILT_IN:
        protocol = registry.find(name)
        for dialect in protocol.dialects:
            found[FOLDER / f"{name}_{dialect}.py"] = kernel_source(protocol, dialect)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Writes what is out of date; with --check only names it, and fails."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.columnar.generate", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when out of date")
    chosen = parser.parse_args(arguments)
    stale = [
        path
        for path, source in sources().items()
        if not path.exists() or path.read_text(encoding="utf-8") != source
    ]
    for path in stale:
        print(f"{path.name} is out of date" if chosen.check else f"wrote {path.name}")
        if not chosen.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(sources()[path], encoding="utf-8")
    return 1 if stale and chosen.check else 0


if __name__ == "__main__":
    sys.exit(main())
