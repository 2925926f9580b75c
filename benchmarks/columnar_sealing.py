"""Opening magline's data frames, apart from decoding: all of a key at once, beside one by one.

One by one means a new AES-CTR object for each frame, as the openers that verify need it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from wirelake.capture.decode.decryption import KeyRing
from wirelake.columnar.decode.meaning import MessageFields
from wirelake.columnar.decode.messages import Slices
from wirelake.columnar.decode.sealed_parts import ConnectionKeys, decrypt_batch
from wirelake.protocols.magline.protocol import PROTOCOL

__all__ = ["CONNECTIONS", "Sealing"]

CONNECTIONS = 500
"""Whose frames take turns; each has a key for each direction."""
LEAST, MOST = 12, 140
"""Bytes of a body."""


class Sealing:
    """Sealed bodies, their keys, and two ways to open them."""

    def __init__(self, frames: int, seed: int = 3):
        rng = np.random.default_rng(seed)
        connections = min(CONNECTIONS, frames)
        self._seqs = rng.integers(1, 100_000, frames)
        self._slices = _slices(rng.integers(1, connections + 1, frames), rng.integers(0, 2, frames))
        self._ring, self._keys = _keys(connections, seed)
        offsets = np.append(0, np.cumsum(rng.integers(LEAST, MOST + 1, frames))).astype(np.int32)
        data = rng.bytes(int(offsets[-1]))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self._body = pa.Array.from_buffers(pa.binary(), frames, buffers)

    def passes(self) -> dict[str, Callable[[], Any]]:
        """What is timed."""
        keys = ConnectionKeys(PROTOCOL, self._ring)
        return {"batched": lambda: self.batched(keys), "one by one": self.one_by_one}

    def batched(self, keys: ConnectionKeys) -> pa.Array:
        """All bodies, as batches of captures are opened."""
        found = MessageFields(len(self._body))
        found.fields["seq"] = pa.array(self._seqs)
        sealed = np.ones(len(self._body), np.bool_)
        opened, stayed, unopened = decrypt_batch(keys, self._slices, found, self._body, sealed)
        assert not stayed.any()
        assert not unopened.any()
        return opened

    def one_by_one(self) -> list[bytes]:
        """All bodies, with a cipher for each."""
        opened = []
        rows = zip(
            self._body.to_pylist(),
            self._slices.connection.tolist(),
            self._slices.directions.tolist(),
            self._seqs.tolist(),
            strict=True,
        )
        for body, connection, way, seq in rows:
            key, iv = self._keys[connection, way]
            nonce = iv[:8] + bytes(
                a ^ b for a, b in zip(iv[8:], seq.to_bytes(4, "big"), strict=True)
            )
            opened.append(Cipher(AES(key), CTR(nonce + bytes(4))).decryptor().update(body))
        return opened

    def check(self) -> None:
        """Both ways give the same bytes."""
        batched = self.batched(ConnectionKeys(PROTOCOL, self._ring)).to_pylist()
        if batched != self.one_by_one():
            raise RuntimeError("bodies opened together differ from those opened one by one")


def _slices(connection: Any, ways: Any) -> Slices:
    """Frames of which only the connection and the direction matter."""
    places = np.zeros(len(connection), np.int64)
    unused = cast(Any, None)
    return Slices(
        data=unused,
        pieces=unused,
        piece=places,
        starts=places,
        stops=places,
        directions=ways.astype(np.uint8),
        ts_ns=places,
        arrival=places,
        connection=connection,
    )


def _keys(
    connections: int, seed: int
) -> tuple[KeyRing, dict[tuple[int, int], tuple[bytes, bytes]]]:
    rng = random.Random(seed)
    ring, known = KeyRing(), {}
    for connection in range(1, connections + 1):
        line: dict[str, Any] = {"protocol": "magline", "connection": connection}
        for way, name in enumerate(("c2s", "s2c")):
            key, iv = rng.randbytes(32), rng.randbytes(12)
            known[connection, way] = key, iv
            line |= {f"{name}_enc": key.hex(), f"{name}_iv": iv.hex()}
        ring.add(json.dumps(line))
    return ring, known
