"""The file format of saved state: a header in clear, then one zstd frame of msgpack.

    bytes 0-13    "wirelake-state"
    bytes 14-15   the format number, big-endian
    bytes 16-23   the kind of state, ASCII, padded with spaces: "source", "tunnels", ...
    from 24       a zstd frame with content size and checksum, of the msgpack of a `Struct`

A state is data only: numbers, texts, bytes, and Arrow IPC streams in place of arrays and record
batches. No class is named in it, so reading one runs nothing but this decoder. The kind says which
`Struct` to expect, and msgspec checks every field against it. `StateError` is the only exception.

Release 0.1.0 wrote serialised Python objects, which can run code when they are read. They are
recognised by their first bytes and refused unread.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeVar, get_args

import msgspec
import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

__all__ = [
    "FORMAT",
    "NewerStateError",
    "StateError",
    "batch_of",
    "check",
    "check_header",
    "column",
    "decode",
    "encode",
    "fill",
    "records_of",
]

FORMAT: Final = 2
"""Incremented whenever a field of any saved `Struct` changes, the columns of connections, streams
and calls included. Release 0.1.0 used 1."""
_MAGIC: Final = b"wirelake-state"
_HEADER: Final = struct.Struct(">14sH8s")
_LEVEL: Final = 1
"""Of zstd. Most of a state is small numbers: higher levels save little and cost time."""
_MAX_BYTES: Final = 4 << 30
"""Limit of the decompressed size, so that a crafted file cannot exhaust memory unnoticed; a
connection takes a few hundred bytes."""
_RELEASE_0_1_0: Final = (b"WHPS", b"wirehouse fold ", b"wirelake fold ")
"""What states of release 0.1.0 begin with, some behind a msgpack header of at most six bytes."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class StateError(ValueError):
    """Bytes that are not a state this version can continue from; the message is one line."""


class NewerStateError(StateError):
    """A state that a newer release wrote."""


def encode(kind: str, state: msgspec.Struct) -> bytes:
    """Return a state in the file format."""
    header = _HEADER.pack(_MAGIC, FORMAT, kind.encode().ljust(8))
    packed = msgspec.msgpack.encode(state, enc_hook=_to_arrow)
    return header + zstandard.ZstdCompressor(_LEVEL, write_checksum=True).compress(packed)


def check_header(data: bytes) -> None:
    """Check that a state begins with the header of this format. Raises StateError.

    The first bytes of a file are enough: a lake is refused before Spark starts.
    """
    if any(each in data[: len(each) + 6] for each in _RELEASE_0_1_0):
        raise StateError("state of release 0.1.0, which this version cannot continue from")
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        raise StateError("not a Wirelake state file")
    _, number, _ = _HEADER.unpack_from(data)
    if number > FORMAT:
        raise NewerStateError(
            f"state has format {number}, this version reads {FORMAT}: use a newer Wirelake"
        )
    if number < FORMAT:
        raise StateError(f"state has format {number}, this version reads {FORMAT}")


def decode(kind: str, data: bytes, expected: type[_Struct]) -> _Struct:
    """Return the state that `encode` was given. Raises StateError."""
    check_header(data)
    found = _HEADER.unpack_from(data)[2]
    if found.rstrip() != kind.encode():
        raise StateError(f"expected state of kind {kind!r}, found {found.rstrip()!r}")
    try:
        frame = memoryview(data)[_HEADER.size :]
        if zstandard.frame_content_size(frame) > _MAX_BYTES:
            raise StateError(f"state is damaged: larger than {_MAX_BYTES} bytes")
        packed = zstandard.ZstdDecompressor().decompress(frame)
        return msgspec.msgpack.decode(packed, type=expected, dec_hook=_from_arrow)
    except (zstandard.ZstdError, msgspec.DecodeError, pa.ArrowException, OSError) as error:
        text = str(error).strip().partition("\n")[0]
        raise StateError(f"state is damaged: {text}") from None


def check(condition: object, what: str) -> None:
    """Raise StateError unless a saved value is in its range.

    Kernels index arrays with saved numbers and have no bounds checks of their own.
    """
    if not condition:
        raise StateError(f"state is damaged: {what} out of range")


# -- arrays ----------------------------------------------------------------------------------


def batch_of(
    records: NDArray[Any], rows: NDArray[Any] | slice = slice(None), names: Sequence[str] = ()
) -> pa.RecordBatch:
    """Return fields of a structured array as columns; all of them unless `names` are given."""
    wanted = names or records.dtype.names or ()
    return pa.record_batch({name: pa.array(records[name][rows]) for name in wanted})


def fill(records: NDArray[Any], at: NDArray[Any], batch: pa.RecordBatch, rows: Any) -> None:
    """Copy rows of a batch into fields of a structured array, at the places `at`."""
    for name in batch.schema.names:
        records[name][at] = column(batch, name, records.dtype)[rows]


def records_of(batch: pa.RecordBatch, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a batch as a structured array, the inverse of `batch_of`. Raises StateError."""
    names = dtype.names or ()
    if tuple(batch.schema.names) != names:
        raise StateError("state is damaged: unexpected columns")
    records = np.empty(batch.num_rows, dtype)
    for name in names:
        records[name] = column(batch, name, dtype)
    return records


def column(batch: pa.RecordBatch, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a column that must have the type of a field. Raises StateError."""
    if name not in batch.schema.names:
        raise StateError(f"state is damaged: no column {name!r}")
    found = batch.column(name)
    if found.null_count or found.type != pa.from_numpy_dtype(dtype[name]):
        raise StateError(f"state is damaged: unexpected column {name!r}")
    return np.asarray(found.to_numpy())


def _to_arrow(value: Any) -> Any:
    """Encode arrays and batches as Arrow IPC streams of one batch."""
    if isinstance(value, np.ndarray):
        value = pa.record_batch({"": pa.array(value)})
    if not isinstance(value, pa.RecordBatch):
        raise NotImplementedError(type(value))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write_batch(value)
    return memoryview(sink.getvalue())


def _from_arrow(expected: Any, value: Any) -> Any:
    """Decode what `_to_arrow` gave; `expected` is RecordBatch or NDArray[...]."""
    if not isinstance(value, bytes):
        raise msgspec.ValidationError("expected an Arrow stream")
    with pa.ipc.open_stream(value) as reader:
        batch = reader.read_next_batch()
    batch.validate(full=True)
    if expected is pa.RecordBatch:
        return batch
    dtype = np.dtype(get_args(get_args(expected)[1])[0])
    if batch.num_columns != 1 or batch.column(0).type != pa.from_numpy_dtype(dtype):
        raise msgspec.ValidationError(f"expected an array of {dtype}")
    # A copy: Numba compiles a kernel again for arrays that are read-only or not aligned.
    return np.array(batch.column(0).to_numpy(zero_copy_only=False))
