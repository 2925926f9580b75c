"""Writing capture files: `PcapWriter`, `PcapngWriter`; and sealing: `Output`, `Sealer`.

The writers are for tests, simulated traffic and `capture repair`; each call returns the offset of
what it wrote. The recorder formats packets itself (`record/recorder.py`): it reaches 1.0 M frames/s
that way (benchmarks/results/captures.json).

A recording is written as `<source>-<sequence>.pcapng.open` and renamed when it is complete and on
disk. So a reader that ignores `.open` files never sees a partial one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import msgspec

from . import constants as fmt
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
    "is_being_written",
    "marks_option",
    "next_sequence",
    "open_files",
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
        link: int = fmt.LINK_ETHERNET,
        order: Order = "little",
        nano: bool = False,
        snap_length: int = 262_144,
    ):
        self._stream = stream
        self._tick_ns = 1 if nano else 1_000
        self._head = struct.Struct(_sign(order) + "IIII")
        magic = fmt.PCAP_MAGIC_NANO if nano else fmt.PCAP_MAGIC_MICRO
        head = struct.pack(_sign(order) + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link)
        self.offset = stream.write(head)

    def packet(self, ts_ns: int, data: bytes, original: int | None = None) -> int:
        """Write a packet; `original` is its size on the wire if it was cut."""
        wire = len(data) if original is None else original
        parts = ts_ns % _NS // self._tick_ns
        self._stream.write(self._head.pack(ts_ns // _NS, parts, len(data), wire) + data)
        at = self.offset
        self.offset += fmt.PCAP_RECORD_SIZE + len(data)
        return at


class PcapngWriter:
    """A pcapng file. It begins with a section; `section` begins another one."""

    def __init__(
        self, stream: BinaryIO, *, order: Order = "little", options: Iterable[Option] = ()
    ):
        self._stream = stream
        self._interfaces: list[tuple[int, int]] = []
        self.offset = 0
        self.section(order, options)

    def section(self, order: Order = "little", options: Iterable[Option] = ()) -> int:
        """Write a section header: interfaces are numbered from 0 again."""
        self._sign = _sign(order)
        self._interfaces = []
        head = struct.pack(self._sign + "IHHq", fmt.BYTE_ORDER_MAGIC, 1, 0, -1)
        return self.block(fmt.BLOCK_SHB, head + self._options(options))

    def interface(
        self,
        link: int,
        *,
        snap_length: int = 0,
        resolution: int = 9,
        shift_s: int = 0,
        options: Iterable[Option] = (),
    ) -> int:
        """Write an interface; `resolution` is the byte of if_tsresol."""
        power = resolution & 0x7F
        self._interfaces.append((2**power if resolution & 0x80 else 10**power, shift_s * _NS))
        every = [(fmt.OPTION_TSRESOL, bytes([resolution])), *options]
        if shift_s:
            every.append((fmt.OPTION_TSOFFSET, struct.pack(self._sign + "q", shift_s)))
        head = struct.pack(self._sign + "HHI", link, 0, snap_length)
        return self.block(fmt.BLOCK_IDB, head + self._options(every))

    def packet(
        self,
        ts_ns: int,
        data: bytes,
        *,
        original: int | None = None,
        interface: int = 0,
        options: Iterable[Option] = (),
    ) -> int:
        """Write an enhanced packet block."""
        ticks = self._ticks(ts_ns, interface)
        wire = len(data) if original is None else original
        head = struct.pack(
            self._sign + "5I", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire
        )
        return self.block(fmt.BLOCK_EPB, head + _padded(data) + self._options(options))

    def obsolete_packet(
        self, ts_ns: int, data: bytes, *, original: int | None = None, interface: int = 0
    ) -> int:
        """Write an obsolete packet block, as files before 2004 have them."""
        ticks = self._ticks(ts_ns, interface)
        wire = len(data) if original is None else original
        head = struct.pack(
            self._sign + "HH4I", interface, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire
        )
        return self.block(fmt.BLOCK_PACKET, head + _padded(data))

    def simple_packet(self, data: bytes, *, original: int | None = None) -> int:
        """Write a simple packet block: without a time, of interface 0."""
        wire = len(data) if original is None else original
        return self.block(fmt.BLOCK_SPB, struct.pack(self._sign + "I", wire) + _padded(data))

    def secrets(self, text: str, kind: int = fmt.SECRETS_TYPE) -> int:
        """Write a decryption secrets block."""
        data = text.encode()
        head = struct.pack(self._sign + "II", kind, len(data))
        return self.block(fmt.BLOCK_SECRETS, head + _padded(data))

    def custom(self, data: bytes, pen: int = fmt.PEN) -> int:
        """Write a custom block."""
        return self.block(fmt.BLOCK_CUSTOM, struct.pack(self._sign + "I", pen) + _padded(data))

    def fact(self, kind: str, ts_ns: int, connection: int | None = None, **data: object) -> int:
        """Write a fact, as the recorder does."""
        return self.custom(fact_text(kind, ts_ns, connection, data))

    def marks(self, connection: int, direction: Direction, marks: int = 0) -> tuple[Option, Option]:
        """Return the options of a recorded packet."""
        flags = struct.pack(self._sign + "I", _FLAGS[direction])
        return (fmt.OPTION_FLAGS, flags), marks_option(self._sign, connection, marks)

    def block(self, kind: int, body: bytes) -> int:
        """Write a block of any type; the size of the body must be a multiple of four."""
        size = struct.pack(self._sign + "I", 12 + len(body))
        head = struct.pack(self._sign + "I", kind)
        return self.raw(head + size + body + size)

    def raw(self, data: bytes) -> int:
        """Write bytes unchanged: a block of another file, or invalid bytes for a test."""
        at = self.offset
        self._stream.write(data)
        self.offset += len(data)
        return at

    def _ticks(self, ts_ns: int, interface: int) -> int:
        # Integer arithmetic: a float has 53 bits, and nanoseconds since 1970 need 61.
        per_s, shift_ns = self._interfaces[interface]
        return (ts_ns - shift_ns) * per_s // _NS

    def _options(self, options: Iterable[Option]) -> bytes:
        parts = [
            struct.pack(self._sign + "HH", code, len(value)) + _padded(value)
            for code, value in options
        ]
        return b"".join([*parts, bytes(4)]) if parts else b""


def _padded(data: bytes) -> bytes:
    return data.ljust(fmt.pad4(len(data)), b"\0")


def fact_text(kind: str, ts_ns: int, connection: int | None, data: dict[str, object]) -> bytes:
    """Return the data of a custom block that is a fact, padded with spaces, which JSON allows."""
    fields: dict[str, object] = {"kind": kind, "ts_ns": ts_ns}
    if connection is not None:
        fields["connection"] = connection
    text = fmt.FACT_MAGIC + msgspec.json.encode({**fields, **data})
    return text.ljust(fmt.pad4(len(text)))


def marks_option(sign: str, connection: int, marks: int = 0) -> Option:
    """Return the custom option with connection id and marks of a recorded packet."""
    pen = struct.pack(sign + "I", fmt.PEN)
    value = struct.pack("<2sBBQ", fmt.MARK_MAGIC, fmt.MARK_VERSION, marks, connection)
    return fmt.OPTION_CUSTOM_BINARY, pen + value


def origin_option(source: str, sequence: int, order: Order = "little") -> Option:
    """Return the custom option of a section with the source and sequence of a recording."""
    origin = msgspec.json.encode({"source": source, "sequence": sequence})
    pen = struct.pack(_sign(order) + "I", fmt.PEN)
    return fmt.OPTION_CUSTOM_TEXT, pen + fmt.ORIGIN_PREFIX + origin


# -- recordings in a folder --------------------------------------------------------------------

SUFFIX: Final = ".pcapng"
OPEN_SUFFIX: Final = ".pcapng.open"
"""Suffixes of a sealed recording, and of one that is being written."""
_NAME: Final = re.compile(r"(?P<source>.+)-(?P<sequence>\d{8,})\.pcapng(\.open)?")


def sealed_files(folder: Path) -> list[Path]:
    """Return the sealed recordings in a folder, by source and sequence."""
    found = [(_parts(path), path) for path in folder.glob(f"*{SUFFIX}")]
    return [path for parts, path in sorted((p, q) for p, q in found if p is not None)]


def next_sequence(folder: Path, source: str) -> int:
    """Return one more than the highest sequence of a source's files, sealed or open."""
    # Open files too: one that a crash left behind keeps its number, for `capture repair`.
    every = [*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{OPEN_SUFFIX}")]
    parts = [_parts(path) for path in every]
    return max((number + 1 for name, number in filter(None, parts) if name == source), default=0)


def _parts(path: Path) -> tuple[str, int] | None:
    match = _NAME.fullmatch(path.name)
    return (match["source"], int(match["sequence"])) if match else None


def open_files(folder: Path, source: str | None = None) -> list[Path]:
    """Return the recordings in a folder that are not sealed, of one source or of all, by source and
    sequence."""
    found = [(_parts(path), path) for path in folder.glob(f"*{OPEN_SUFFIX}")]
    named = sorted((parts, path) for parts, path in found if parts is not None)
    return [path for parts, path in named if source in (None, parts[0])]


def is_being_written(path: str | os.PathLike[str]) -> bool:
    """Return whether a recorder on this machine has a file open."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # sealed meanwhile
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(opened)
    return False


def seal(path: Path) -> Path:
    """Rename an open file, which is completely on disk, to its sealed name."""
    sealed = path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SUFFIX)
    # The content is on disk already (`Output.seal`), so the name never refers to less than all of
    # it.
    path.rename(sealed)
    sync_folder(path.parent)
    return sealed


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk; otherwise a power loss could undo a rename in it."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Output:
    """A file that is being written.

    `write` passes data to the operating system at once: a process that is killed afterwards loses
    nothing of it. A power loss may, until the file is sealed.
    """

    def __init__(self, folder: Path, source: str, sequence: int):
        self.path = folder / f"{source}-{sequence:08d}{OPEN_SUFFIX}"
        """Its name while it is open."""
        # A sealed file is never overwritten, whatever sequence the caller asks for.
        sealed = folder / f"{source}-{sequence:08d}{SUFFIX}"
        if sealed.exists():
            raise FileExistsError(f"{sealed} already exists")
        # O_EXCL: two recorders of the same source in one folder must not share a file.
        # Not for everybody on the machine: a recording has tokens that were sent in the clear.
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        # Tells the file from one that a killed recorder has left (`is_being_written`): the kernel
        # releases the lock when the process ends, however it ends.
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, data: bytes) -> None:
        """Write all of it, or raise OSError and truncate the file to what it was before."""
        # os.write may write a part only, on a full disk for example.
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
        """Try to undo a partial write. If that fails too, the first error is the one to report, and
        readers report the partial block as a fault."""
        try:
            step()
        except OSError:
            return

    def check_exists(self) -> None:
        """Raise FileNotFoundError when somebody has removed the file: what is written is lost."""
        if not os.fstat(self._file).st_nlink:
            raise FileNotFoundError(errno.ENOENT, "the recording was removed", str(self.path))

    def seal(self) -> Path:
        """Sync the file to disk, close it and rename it; return its new path."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
        return seal(self.path)

    def discard(self) -> None:
        """Close and remove the file."""
        os.close(self._file)
        self.path.unlink()


class Sealer:
    """Seals files in a thread: fsync of 64 MiB can take a second, in which the event loop of a hub
    could not serve connections. At most one file at a time, so a slow disk slows the recorder down
    instead of collecting unsynced files."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "seal")
        self._last: Future[Path] | None = None

    def seal(self, output: Output) -> None:
        """Start sealing a file, after the previous one is sealed."""
        self.wait()
        self._last = self._pool.submit(output.seal)

    def wait(self) -> Path | None:
        """Wait until the last file is sealed; return its path, or raise its error."""
        last, self._last = self._last, None
        return last.result() if last is not None else None

    def stop(self) -> None:
        """Stop the thread."""
        self._pool.shutdown()
