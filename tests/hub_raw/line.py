"""A blocking socket that gives whole numbers of bytes; what every raw client stands on."""

from __future__ import annotations

import socket
import time

__all__ = ["EndedError", "Line", "dial"]

_TIMEOUT_S = 20.0


class EndedError(Exception):
    """The other side has closed; `rest` is what came before."""

    def __init__(self, rest: bytes):
        super().__init__(f"closed after {len(rest)} more bytes")
        self.rest = rest


class Line:
    """One connection, read and written in whole pieces."""

    def __init__(self, sock: socket.socket, timeout_s: float = _TIMEOUT_S):
        sock.settimeout(timeout_s)
        self.socket = sock
        self._held = bytearray()

    def send(self, data: bytes) -> None:
        """Writes everything."""
        self.socket.sendall(data)

    def take(self, size: int) -> bytes:
        """The next `size` bytes, waited for."""
        while len(self._held) < size:
            self._read()
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def peek(self, size: int) -> bytes:
        """The next bytes, without taking them."""
        while len(self._held) < size:
            self._read()
        return bytes(self._held[:size])

    def _read(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            rest = bytes(self._held)
            self._held.clear()
            raise EndedError(rest)
        self._held += data

    def ready(self, within_s: float) -> bool:
        """Whether bytes come, or the end, within this time."""
        if self._held:
            return True
        before = self.socket.gettimeout()
        self.socket.settimeout(max(within_s, 0.001))
        try:
            self._read()
        except TimeoutError:
            return False
        except EndedError:
            return True
        finally:
            self.socket.settimeout(before)
        return True

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        until = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < until:
            try:
                self._read()
            except EndedError as ended:
                return ended.rest
        raise TimeoutError("the other side does not close")

    def close(self) -> None:
        """Hangs up."""
        self.socket.close()


def dial(address: tuple[str, int], timeout_s: float = _TIMEOUT_S) -> Line:
    """A plain TCP connection."""
    sock = socket.create_connection(address, timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Line(sock, timeout_s)
