"""`wirelake` as a process with a name, a short lease and a clock of its own.

python -m tests.hub.cluster.checker.hub_main NAME LEASE_S RENEW_S SKEW_S hub --data …
"""

from __future__ import annotations

import socket
import sys
import time

_name, _lease_s, _renew_s, _skew_s = sys.argv[1:5]
_skew_ns = int(float(_skew_s) * 1e9)
_time_ns = time.time_ns
# Before anything else is imported: some modules keep the functions.
time.time_ns = lambda: _time_ns() + _skew_ns
time.time = lambda: time.time_ns() / 1e9
socket.gethostname = lambda: _name

from wirelake.cli.main import main  # noqa: E402
from wirelake.hub.store import postgres_membership  # noqa: E402

postgres_membership.LEASE_S = float(_lease_s)  # type: ignore[misc]
postgres_membership.RENEW_S = float(_renew_s)  # type: ignore[misc]

if __name__ == "__main__":
    sys.exit(main(sys.argv[5:]))
