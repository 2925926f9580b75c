"""Calls a hub at a fixed rate over ESNP, each request in a packet of its own.

    python -m tests.live.caller HOST PORT CLIENTS --rate 10000 --seconds 60

CLIENTS is a file with an id and a token in each line: each signs on on a connection. Prints JSON:
how many requests were sent and answers came. Requests are encoded beforehand, and answers, which
all have the same size, are counted by their bytes: this shares the machine with what is measured.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import time
from pathlib import Path

from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp.session import EsnpSession
from wirelake.protocols.esnp.values import data_rows
from wirelake.protocols.sansio import Role

_IDS = 1_000
_FIRST_ID = 1_000_000
"""All ids of the load have the same number of digits, so all messages have the same size."""
_TICK_S = 0.005
_DRAIN_S = 20.0


def _call(session: EsnpSession, service: str, op: str, **values: str) -> bytes:
    """The bytes of a call."""
    target = (
        esnp.Address(kind=esnp.AddressKind.SERVICE, value=service),
        esnp.Address(kind=esnp.AddressKind.OP, value=op),
    )
    session.request((*target, *data_rows(values)))
    return session.to_send()


def _signed_on(address: tuple[str, int], client: str, token: str) -> socket.socket:
    """A connection on which a client has signed on."""
    found = socket.create_connection(address)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    session = EsnpSession(Role.CLIENT, now=0.0)
    found.sendall(_call(session, "hub", "auth", id=client, token=token))
    while session.calls:
        session.receive(found.recv(65_536), 0.0)
        session.events()
    return found


def main() -> None:
    """Send for some seconds, then wait for the answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("clients", type=Path)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    session = EsnpSession(Role.CLIENT, now=0.0, first_id=_FIRST_ID)
    requests = [_call(session, "test", "echo", text="x" * 64) for _ in range(_IDS)]
    sockets = [
        _signed_on((options.host, options.port), *line.split())
        for line in options.clients.read_text().splitlines()
    ]
    sockets[0].sendall(requests[0])
    size = len(sockets[0].recv(65_536))
    sent, received = 1, size
    poll = select.epoll()
    by_number = {each.fileno(): each for each in sockets}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    begin = time.monotonic()
    until = begin + options.seconds
    total = 1 + int(options.seconds * options.rate)
    while (now := time.monotonic()) < until + _DRAIN_S:
        due = min(total, 1 + int((now - begin) * options.rate))
        while sent < due:
            sockets[sent % len(sockets)].sendall(requests[sent // len(sockets) % _IDS])
            sent += 1
        if sent == total and received >= sent * size:
            break
        for number, _ in poll.poll(_TICK_S):
            received += len(by_number[number].recv(1 << 16))
    for each in sockets:
        each.close()
    seconds = time.monotonic() - begin
    calls = {"sent": sent + len(sockets), "answers": received / size + len(sockets)}
    print(json.dumps({**calls, "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
