"""Health probe of a hub: exits with 0 if it is healthy, else with 1 and a one-line error.

    python health.py /healthz
    python health.py /readyz --url https://127.0.0.1:9680 --data /var/lib/wirelake/hub

For probes that run in the hub's container. It needs only Python. The admin token is read from the
data directory, because off loopback every endpoint of the hub requires it. The certificate is not
verified, because the address is local.
"""

from __future__ import annotations

import argparse
import http.client
import ssl
import sys
import urllib.parse
from pathlib import Path

__all__ = ["ask", "main"]

_LIMIT_S = 4.0
"""Below the timeout of the probes."""


def main(argv: list[str] | None = None) -> int:
    """Probe the hub; print the problem to standard error."""
    parser = argparse.ArgumentParser(description="Check the health of a hub.")
    parser.add_argument("page", nargs="?", default="/healthz", help="/healthz or /readyz")
    parser.add_argument("--url", default="http://127.0.0.1:9680", help="admin address of the hub")
    parser.add_argument("--data", default="/var/lib/wirelake/hub", help="data directory of the hub")
    wanted = parser.parse_args(argv)
    try:
        status, said = ask(wanted.url, wanted.page, _token(Path(wanted.data)))
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer from {wanted.url}: {error}", file=sys.stderr)
        return 1
    if status != http.client.OK:
        print(f"{wanted.page} answers {status}: {said}", file=sys.stderr)
        return 1
    return 0


def ask(url: str, page: str, token: str) -> tuple[int, str]:
    """Return the status and the text of an endpoint."""
    where = urllib.parse.urlsplit(url)
    host = where.hostname or "127.0.0.1"
    line: http.client.HTTPConnection
    if where.scheme == "https":
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        line = http.client.HTTPSConnection(host, where.port, timeout=_LIMIT_S, context=trusting)
    else:
        line = http.client.HTTPConnection(host, where.port, timeout=_LIMIT_S)
    try:
        line.request("GET", page, headers={"Authorization": f"Bearer {token}"})
        answer = line.getresponse()
        return answer.status, answer.read(500).decode("utf-8", "replace").strip()
    finally:
        line.close()


def _token(data: Path) -> str:
    try:
        return (data / "admin.token").read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""  # not needed on loopback; elsewhere the hub answers 401


if __name__ == "__main__":
    sys.exit(main())
