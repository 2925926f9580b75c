"""`python -m wirelake.columnar.generate [--check]`: write the committed kernels.

One file for each built-in protocol, in its default dialect. Kernels of other dialects are generated
into the cache folder on first use (`decode/kernel.py`).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wirelake.protocols import registry

from .module import kernel_source

FOLDER = Path(__file__).parent.parent / "kernels"


def sources() -> dict[Path, str]:
    """Return the committed files with the content that each should have."""
    found = {}
    for name in registry.BUILT_IN:
        protocol = registry.find(name)
        default = protocol.dialects[0]
        found[FOLDER / f"{name}_{default}.py"] = kernel_source(protocol, default)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write the files that are out of date; with --check, only list them."""
    parser = argparse.ArgumentParser(
        prog="python -m wirelake.columnar.generate", description=main.__doc__
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a file is out of date"
    )
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
