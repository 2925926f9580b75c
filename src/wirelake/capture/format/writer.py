"""Writes capture files: `PcapWriter` and `PcapngWriter`, packet by packet or block by block.

For tests, the simulator and `capture redact`; the recorder has a faster way of its own
(`recorder.py`). Each call gives the offset of what it wrote.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import msgspec

from . import constants as f
from .items import Direction, Order

__all__ = [
    "OPEN_SUFFIX",
    "SUFFIX",
    "Option",
    "Output",
    "PcapWriter",
    "PcapngWriter",
    "Sealer",
    "fact_text",
    "marks_option",
    "next_sequence",
    "origin_option",
    "seal",
    "sealed_files",
    "sync_folder",
]


Option: TypeAlias = tuple[int, bytes]
"""Code and value of a pcapng option."""

_NS: Final = 1_000_000_000
_FLAGS: Final[dict[Direction, int]] = {"c2s": 1, "s2c": 2}


def _sign(order: Order) -> str:
    return "<" if order == "little" else ">"


class PcapWriter:
    """A pcap file: one link type, times in microseconds or nanoseconds."""

    def __init__(
        self,
        stream: BinaryIO,
        *,
        link: int = f.LINK_ETHERNET,
        order: Order = "little",
        nano: bool = False,
        snap_length: int = 262_144,
    ):
        self._stream = stream
        self._tick_ns = 1 if nano else 1_000
        self._head = struct.Struct(_sign(order) + "IIII")
        magic = f.PCAP_MAGIC_NANO if nano else f.PCAP_MAGIC_MICRO
        head = struct.pack(_sign(order) + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link)
        self.offset = stream.write(head)

    def packet(self, ts_ns: int, data: bytes, original: int | None = None) -> int:
        """A packet; `original` is its length on the wire when the capture cut it."""
        wire = len(data) if original is None else original
        parts = ts_ns % _NS // self._tick_ns
        self._stream.write(self._head.pack(ts_ns // _NS, parts, len(data), wire) + data)
        at = self.offset
        self.offset += f.PCAP_RECORD_SIZE + len(data)
        return at


class PcapngWriter:
    """A pcapng file. Begins a section by itself; `section` begins another."""

    def __init__(
        self, stream: BinaryIO, *, order: Order = "little", options: Iterable[Option] = ()
    ):
        self._stream = stream
        self._interfaces: list[tuple[int, int]] = []
        self.offset = 0
        self.section(order, options)

    def section(self, order: Order = "little", options: Iterable[Option] = ()) -> int:
        """A section header: interfaces count from 0 again."""
        self._sign = _sign(order)
        self._interfaces = []
        head = struct.pack(self._sign + "IHHq", f.BYTE_ORDER_MAGIC, 1, 0, -1)
        return self.block(f.BLOCK_SHB, head + self._options(options))

    def interface(
        self,
        link: int,
        *,
        snap_length: int = 0,
        resolution: int = 9,
        shift_s: int = 0,
        options: Iterable[Option] = (),
    ) -> int:
        """An interface; `resolution` is the byte of if_tsresol."""
        power = resolution & 0x7F
        self._interfaces.append((2**power if resolution & 0x80 else 10**power, shift_s * _NS))
        every = [(f.OPTION_TSRESOL, bytes([resolution])), *options]
        if shift_s:
            every.append((f.OPTION_TSOFFSET, struct.pack(self._sign + "q", shift_s)))
        head = struct.pack(self._sign + "HHI", link, 0, snap_length)
        return self.block(f.BLOCK_IDB, head + self._options(every))

    def packet(
        self,
        ts_ns: int,
        data: bytes,
        *,
        original: int | None = None,
        interface: int = 0,
        options: Iterable[Option] = (),
    ) -> int:
        """An enhanced packet block."""
        ticks = self._ticks(ts_ns, interface)
        wire = len(data) if original is None else original
        head = struct.pack(
            self._sign + "5I", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire
        )
        return self.block(f.BLOCK_EPB, head + _padded(data) + self._options(options))

    def obsolete_packet(
        self, ts_ns: int, data: bytes, *, original: int | None = None, interface: int = 0
    ) -> int:
        """A packet block as files before 2004 have them."""
        ticks = self._ticks(ts_ns, interface)
        wire = len(data) if original is None else original
        head = struct.pack(
            self._sign + "HH4I", interface, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire
        )
        return self.block(f.BLOCK_PACKET, head + _padded(data))

    def simple_packet(self, data: bytes, *, original: int | None = None) -> int:
        """A simple packet block: no time; of interface 0."""
        wire = len(data) if original is None else original
        return self.block(f.BLOCK_SPB, struct.pack(self._sign + "I", wire) + _padded(data))

    def secrets(self, text: str, kind: int = f.SECRETS_TYPE) -> int:
        """A decryption secrets block."""
        data = text.encode()
        head = struct.pack(self._sign + "II", kind, len(data))
        return self.block(f.BLOCK_SECRETS, head + _padded(data))

    def custom(self, data: bytes, pen: int = f.PEN) -> int:
        """A custom block."""
        return self.block(f.BLOCK_CUSTOM, struct.pack(self._sign + "I", pen) + _padded(data))

    def fact(self, kind: str, ts_ns: int, connection: int | None = None, **data: object) -> int:
        """A fact, as the recorder writes it."""
        return self.custom(fact_text(kind, ts_ns, connection, data))

    def marks(self, connection: int, direction: Direction, marks: int = 0) -> tuple[Option, Option]:
        """The options of a recorded packet."""
        flags = struct.pack(self._sign + "I", _FLAGS[direction])
        return (f.OPTION_FLAGS, flags), marks_option(self._sign, connection, marks)

    def block(self, kind: int, body: bytes) -> int:
        """A block of any type; the body must fill words of four bytes."""
        size = struct.pack(self._sign + "I", 12 + len(body))
        head = struct.pack(self._sign + "I", kind)
        return self.raw(head + size + body + size)

    def raw(self, data: bytes) -> int:
        """Bytes as they are: a block of another file, or rubbish for a test."""
        at = self.offset
        self._stream.write(data)
        self.offset += len(data)
        return at

    def _ticks(self, ts_ns: int, interface: int) -> int:
        per_s, shift_ns = self._interfaces[interface]
        return (ts_ns - shift_ns) * per_s // _NS

    def _options(self, options: Iterable[Option]) -> bytes:
        parts = [
            struct.pack(self._sign + "HH", code, len(value)) + _padded(value)
            for code, value in options
        ]
        return b"".join([*parts, bytes(4)]) if parts else b""


def _padded(data: bytes) -> bytes:
    return data.ljust(f.pad4(len(data)), b"\0")


def fact_text(kind: str, ts_ns: int, connection: int | None, data: dict[str, object]) -> bytes:
    """The data of a custom block that is a fact: spaces fill its last word, which JSON allows."""
    said: dict[str, object] = {"kind": kind, "ts_ns": ts_ns}
    if connection is not None:
        said["connection"] = connection
    text = f.FACT_MAGIC + msgspec.json.encode({**said, **data})
    return text.ljust(f.pad4(len(text)))


def marks_option(sign: str, connection: int, marks: int = 0) -> Option:
    """The custom option that holds the id and the marks of a recorded packet."""
    pen = struct.pack(sign + "I", f.PEN)
    value = struct.pack("<2sBBQ", f.MARK_MAGIC, f.MARK_VERSION, marks, connection)
    return f.OPTION_CUSTOM_BINARY, pen + value


def origin_option(source: str, sequence: int, order: Order = "little") -> Option:
    """The custom option of a section that says who recorded it, and its number."""
    said = msgspec.json.encode({"source": source, "sequence": sequence})
    pen = struct.pack(_sign(order) + "I", f.PEN)
    return f.OPTION_CUSTOM_TEXT, pen + f.ORIGIN_PREFIX + said


# Files that are whole or not there: written under another name, sealed by a rename.


SUFFIX: Final = ".pcapng"
OPEN_SUFFIX: Final = ".pcapng.open"
"""Of a sealed recording, and of one that is being written."""
_NAME: Final = re.compile(r"(?P<source>.+)-(?P<sequence>\d{8,})\.pcapng(\.open)?")


def sealed_files(folder: Path) -> list[Path]:
    """The recordings in a folder that may be read, by source and sequence."""
    found = [(_parts(path), path) for path in folder.glob(f"*{SUFFIX}")]
    return [path for parts, path in sorted((p, q) for p, q in found if p is not None)]


def next_sequence(folder: Path, source: str) -> int:
    """One more than the highest number that a file of this source has, sealed or open."""
    every = [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{OPEN_SUFFIX}")]
    parts = [_parts(path) for path in every]
    return max((number + 1 for name, number in filter(None, parts) if name == source), default=0)


def _parts(path: Path) -> tuple[str, int] | None:
    match = _NAME.fullmatch(path.name)
    return (match["source"], int(match["sequence"])) if match else None


def seal(path: Path) -> Path:
    """Renames an open file, all of which is on disk, to its sealed name."""
    sealed = path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SUFFIX)
    path.rename(sealed)
    sync_folder(path.parent)
    return sealed


def sync_folder(folder: Path) -> None:
    """Brings a folder to disk: or a power cut could take a rename in it back."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Output:
    """One file that is being written. `write` goes to the operating system at once, so a process
    that is killed afterwards loses nothing of it."""

    def __init__(self, folder: Path, source: str, sequence: int):
        self.path = folder / f"{source}-{sequence:08d}{OPEN_SUFFIX}"
        """Its name for now."""
        sealed = folder / f"{source}-{sequence:08d}{SUFFIX}"
        if sealed.exists():
            raise FileExistsError(f"{sealed} already exists")
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def write(self, data: bytes) -> None:
        """Writes all of it, or raises OSError and cuts the file to what it was before."""
        view, begin = memoryview(data), os.lseek(self._file, 0, os.SEEK_CUR)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            self._best_effort(lambda: os.ftruncate(self._file, begin))
            self._best_effort(lambda: os.lseek(self._file, begin, os.SEEK_SET))
            raise

    @staticmethod
    def _best_effort(step: Callable[[], object]) -> None:
        """Half a block at the end is a fault that readers name; the first error matters more."""
        try:
            step()
        except OSError:
            return

    def seal(self) -> Path:
        """Brings it to disk, closes it and gives it its name."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
        return seal(self.path)

    def discard(self) -> None:
        """Closes and removes it."""
        os.close(self._file)
        self.path.unlink()


class Sealer:
    """Seals files on a thread of its own: bringing one to disk can take a second, and an edge
    that serves connections has none to spare."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "seal")
        self._last: Future[Path] | None = None

    def seal(self, output: Output) -> None:
        """Begins to seal a file; waits for the one before."""
        self.wait()
        self._last = self._pool.submit(output.seal)

    def wait(self) -> Path | None:
        """Until the last file is sealed; gives its name, or raises what went wrong."""
        last, self._last = self._last, None
        return last.result() if last is not None else None

    def stop(self) -> None:
        """Ends the thread."""
        self._pool.shutdown()
