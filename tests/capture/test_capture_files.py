"""Files as they are opened: plain, gzip, zstd, cut, broken, unknown, and bombs."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from wirelake.capture.format.constants import Limits
from wirelake.capture.format.files import Feed, open_feed
from wirelake.capture.format.items import FileFault, Packet
from wirelake.capture.format.reader import elements, read, read_bytes

from .small_captures import faults, small_pcap, small_pcapng

Compress = Callable[[bytes], bytes]
COMPRESSORS: dict[str, Compress] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.fixture(params=list(COMPRESSORS))
def compress(request: pytest.FixtureRequest) -> Compress:
    return COMPRESSORS[request.param]


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "capture"
    path.write_bytes(data)
    return path


def test_a_compressed_file_reads_as_a_plain_one(tmp_path: Path, compress: Compress) -> None:
    data, _ = small_pcapng()
    path = _written(tmp_path, compress(data))
    assert list(elements(path)) == list(read_bytes(data))


def test_read_leaves_the_structure_out(tmp_path: Path) -> None:
    data, offsets = small_pcap()
    found = list(read(_written(tmp_path, data)))
    assert [item.offset for item in found] == offsets
    assert all(isinstance(item, Packet) for item in found)


def test_several_members_are_one_file(tmp_path: Path, compress: Compress) -> None:
    data, _ = small_pcap(40)
    parts = [data[:100], b"", data[100:101], data[101:]]
    path = _written(tmp_path, b"".join(map(compress, parts)))
    assert list(elements(path, limits=Limits(chunk_bytes=7))) == list(read_bytes(data))


def test_zeros_behind_gzip_are_padding(tmp_path: Path) -> None:
    data, _ = small_pcap()
    assert faults(elements(_written(tmp_path, gzip.compress(data) + bytes(500)))) == []


def test_garbage_after_a_member(tmp_path: Path, compress: Compress) -> None:
    data, _ = small_pcap()
    (fault,) = faults(elements(_written(tmp_path, compress(data) + b"rubbish!")))
    assert (fault.code, fault.offset, fault.present_bytes) == ("truncated_file", len(data), 0)


def test_every_cut_of_a_compressed_file_is_one_fault(tmp_path: Path, compress: Compress) -> None:
    data, _ = small_pcap(30)
    packed = compress(data)
    for cut in range(5, len(packed), 7):
        found = list(elements(_written(tmp_path, packed[:cut])))
        (fault,) = [item for item in found if isinstance(item, FileFault)]
        assert found[-1] is fault
        assert fault.code == "truncated_file"
        assert found[:-1] == list(read_bytes(data))[: len(found) - 1]


def test_a_broken_compressed_file_keeps_what_came_before(
    tmp_path: Path, compress: Compress
) -> None:
    data = b"".join([small_pcap(3)[0], os.urandom(400_000)])
    packed = bytearray(compress(data))
    packed[-1000:] = bytes(1000)
    found = list(elements(_written(tmp_path, bytes(packed))))
    assert sum(isinstance(item, Packet) for item in found) == 3
    assert isinstance(found[-1], FileFault)


@pytest.mark.parametrize("data", [b"", b"x", b"hello, world", bytes(5000), b"\x0a\x0d\x0d\x0a" * 9])
def test_unknown_files(tmp_path: Path, data: bytes) -> None:
    assert [
        (e.code, e.offset, e.present_bytes, e.bytes)
        for e in elements(_written(tmp_path, data))
        if isinstance(e, FileFault)
    ] == [("unknown_file", 0, len(data), data[:256])]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read(tmp_path / "no"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        list(read(tmp_path))


def test_a_decompression_bomb_ends_the_file(tmp_path: Path, compress: Compress) -> None:
    data, offsets = small_pcap(3)
    bomb = compress(data + b"\xff" * 5_000_000)
    limits = Limits(bomb_free_bytes=100_000, bomb_ratio=10)
    allowed = max(100_000, 10 * len(bomb))
    found = list(elements(_written(tmp_path, bomb), limits=limits))
    packets = [item.offset for item in found if isinstance(item, Packet)]
    assert packets == offsets
    rubbish, end = [item for item in found if isinstance(item, FileFault)]
    assert (rubbish.code, rubbish.offset, rubbish.present_bytes) == (
        "bad_block",
        len(data),
        allowed - len(data),
    )
    assert (end.code, end.offset, end.present_bytes) == ("bomb", allowed, 0)


def test_a_decompression_bomb_inside_a_record(tmp_path: Path, compress: Compress) -> None:
    data, _ = small_pcap(1)
    record = (1).to_bytes(4, "little") * 2 + (9_000_000).to_bytes(4, "little") * 2
    bomb = compress(data + record + bytes(9_000_000))
    limits = Limits(bomb_free_bytes=100_000, bomb_ratio=10)
    (fault,) = faults(elements(_written(tmp_path, bomb), limits=limits))
    allowed = max(100_000, 10 * len(bomb))
    assert (fault.code, fault.offset) == ("bomb", len(data))
    assert fault.present_bytes == allowed - len(data)


def test_a_decompression_bomb_of_unknown_content(tmp_path: Path, compress: Compress) -> None:
    path = _written(tmp_path, compress(bytes(5_000_000)))
    limits = Limits(bomb_free_bytes=100_000, bomb_ratio=10)
    (fault,) = faults(elements(path, limits=limits))
    assert (fault.code, fault.offset, fault.present_bytes) == ("bomb", 0, 100_000)


def test_well_compressed_data_is_not_a_bomb(tmp_path: Path, compress: Compress) -> None:
    data, _ = small_pcap(1)
    limits = Limits(bomb_free_bytes=1_000_000, bomb_ratio=2)
    path = _written(tmp_path, compress(data + bytes(999_000 - len(data))))
    assert {e.code for e in faults(elements(path, limits=limits))} <= {"truncated_file"}


def test_the_default_bounds_are_those_of_the_page() -> None:
    limits = Limits()
    assert (limits.block_bytes, limits.bomb_free_bytes, limits.bomb_ratio) == (
        16 * 1024 * 1024,
        64 * 1024 * 1024,
        1_000,
    )


def test_the_window_stays_small(tmp_path: Path) -> None:
    size = 3_000_000
    path = _written(tmp_path, bytes(size))
    with open_feed(path, Limits(chunk_bytes=4096)) as feed:
        for offset in range(0, size, 1000):
            assert feed.take(offset, 1000) == bytes(1000)
            feed.release(offset + 1000)
            assert len(feed.buffer) < 3 * 4096
        assert not feed.has(size, 1)


def test_a_feed_gives_what_there_is() -> None:
    feed = Feed(iter([b"abc", b"de"]))
    assert feed.take(1, 100) == b"bcde"
    assert feed.has(5, 0)
    assert not feed.has(5, 1)
    assert feed.known_end() == 5
