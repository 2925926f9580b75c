"""Rows of `faults`, gathered while a window is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from wirelake.capture.decode.streams import Fault
from wirelake.capture.format.items import FileFault, Secrets
from wirelake.capture.format.limits import FAULT_BYTES
from wirelake.records.schema import schema

from ..tcp.window import DIRECTIONS, Streams

__all__ = ["FaultRows"]


class FaultRows:
    """Faults of files and of streams."""

    def __init__(self, files: list[str]):
        self._files = files
        self._rows: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self) -> pa.RecordBatch:
        """What was gathered since the last call."""
        rows, self._rows = self._rows, []
        return pa.RecordBatch.from_pylist(rows, schema=schema("faults"))

    def of_file(self, file: int, fault: FileFault) -> None:
        """Bytes of a file that would not read."""
        self._rows.append(
            {
                "ts_ns": fault.ts_ns,
                "file": self._files[file],
                "offset": fault.offset,
                "present_bytes": fault.present_bytes,
                "missing_bytes": 0,
                "code": fault.code,
                "detail": fault.detail,
                "bytes": fault.bytes,
            }
        )

    def of_secrets(self, file: int, secrets: Secrets, problem: str) -> None:
        """A line of keys that is none."""
        first = secrets.text.encode("utf-8", "surrogateescape")[:FAULT_BYTES]
        self.of_file(file, FileFault(secrets.offset, 0, "bad_fact", problem, first))

    def of_stream(self, streams: Streams, stream: int, protocol: str | None, fault: Fault) -> None:
        """Bytes of a stream that would not decode."""
        self._rows.append(
            {
                "ts_ns": fault.place.ts_ns,
                "file": self._files[fault.place.file],
                "offset": fault.place.offset,
                "connection": int(streams.connection[stream]),
                "direction": DIRECTIONS[int(streams.direction[stream])],
                "protocol": protocol,
                "stream_offset": fault.start,
                "present_bytes": fault.present_bytes,
                "missing_bytes": fault.missing_bytes,
                "code": fault.code,
                "field": fault.field,
                "detail": fault.detail,
                "bytes": fault.bytes,
            }
        )
