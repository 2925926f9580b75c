"""A network namespace of its own, in which real programs capture real traffic.

    python -m tests.live.network tests.live.world FOLDER

runs a module in a new namespace, with the loopback interface up. Without root it is made in a new
user namespace, in which this user may capture.
"""

from __future__ import annotations

import fcntl
import json
import os
import runpy
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["in_network", "set_up"]

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_TIMEOUT_S = 300


def in_network(module: str, *words: str, timeout_s: float = _TIMEOUT_S) -> Any:
    """Run a module in a new namespace; return the JSON that it prints."""
    own_users = ["--map-root-user"] if os.geteuid() else []
    command = ["unshare", *own_users, "--net", sys.executable, "-m", __name__, module, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=_ROOT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


_ROOT = Path(__file__).parents[2]


def set_up(interface: str, *, up: bool = True) -> None:
    """Bring an interface up, or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        request = struct.pack("16sH14x", interface.encode(), _IFF_UP if up else 0)
        fcntl.ioctl(anything, _SIOCSIFFLAGS, request)


if __name__ == "__main__":
    set_up("lo")
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
