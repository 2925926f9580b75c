"""An interface that goes down while `wirelake listen` listens on it.

    python -m tests.live.network tests.live.broken_interface FOLDER

Prints JSON: the exit code and what standard error says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hub_raw.hub_process import wait_until
from tests.live.network import set_up
from tests.live.world import WIRELAKE

_END_S = 60


def main(folder: Path) -> dict[str, object]:
    """Listen, take the interface away, and wait."""
    subprocess.run(["ip", "link", "add", "gone0", "type", "veth", "peer", "gone1"], check=True)
    set_up("gone0")
    errors = folder / "errors"
    with errors.open("wb") as stream:
        process = subprocess.Popen(
            [*WIRELAKE, "listen", "-i", "gone0", "--json"], stdout=subprocess.PIPE, stderr=stream
        )
    try:
        wait_until(lambda: "listening on" in errors.read_text(), "it listens")
        subprocess.run(["ip", "link", "del", "gone0"], check=True)
        process.communicate(timeout=_END_S)
    finally:
        process.kill()
        process.wait()
    return {"code": process.returncode, "errors": errors.read_text()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
