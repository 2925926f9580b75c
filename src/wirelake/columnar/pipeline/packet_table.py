"""Rows of `packets`, from the arrays of a window."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wirelake.records.schema import schema

from ..decode.meaning import Coded, repeated
from ..tcp.window import DIRECTIONS, NOTES, Window

__all__ = ["packet_batch"]


def packet_batch(window: Window) -> pa.RecordBatch:
    """The packets of a window."""
    segment = window.note == 0
    columns = {
        "ts_ns": pa.array(window.ts_ns),
        "file": repeated(window.path, len(window)),
        "offset": pa.array(window.offset),
        "interface": pa.array(window.interface),
        "link": pa.array(window.link),
        "captured_bytes": pa.array(window.captured),
        "original_bytes": pa.array(window.original),
        "src": _addresses(window, 0),
        "src_port": _where(segment, window.src_port),
        "dst": _addresses(window, 2),
        "dst_port": _where(segment, window.dst_port),
        "seq": _where(segment, window.seq),
        "ack": _where(segment, window.ack),
        "flags": _where(segment, window.flags),
        "payload_bytes": _where(segment, window.payload_len),
        "connection": _where(segment, window.connection),
        "direction": _direction(window),
        "note": Coded(window.note.astype(np.int32) - 1, tuple(NOTES[1:])).array(),
    }
    found = schema("packets")
    arrays = [columns[field.name].cast(field.type) for field in found]
    return pa.RecordBatch.from_arrays(arrays, schema=found)


def _where(segment: NDArray[np.bool_], values: NDArray[Any]) -> pa.Array:
    return pa.array(values, mask=~segment)


def _direction(window: Window) -> pa.Array:
    codes = window.direction.astype(np.int32)
    codes[codes >= len(DIRECTIONS)] = -1
    return Coded(codes, DIRECTIONS).array()


def _addresses(window: Window, row: int) -> pa.Array:
    """Addresses as text, each distinct one made once."""
    high, low = window.addresses[row], window.addresses[row + 1]
    keys = np.stack([window.family.astype(np.uint64), high, low], axis=1)
    distinct, codes = np.unique(keys, axis=0, return_inverse=True)
    texts: list[str] = []
    places = np.full(len(distinct), -1, np.int32)
    for at, (family, upper, lower) in enumerate(distinct.tolist()):
        if family:
            places[at] = len(texts)
            texts.append(_address(int(family), int(upper), int(lower)))
    return Coded(places[codes.reshape(-1)], tuple(texts)).array()


def _address(family: int, high: int, low: int) -> str:
    if family == 4:
        return socket.inet_ntop(socket.AF_INET, low.to_bytes(4, "big"))
    return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big"))
