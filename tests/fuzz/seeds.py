"""Where fuzzing starts: the bytes of the test vectors, samples of the strategies, and words."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.fuzz.mutators import MOST

from wirelake.protocols.registry import find
from wirelake.wire.views.strategy import messages, values

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
FILES = {"relay": "tny"}
"""Protocols whose vectors are in the file of another."""
SAMPLES = 60
"""Messages of each dialect and direction."""
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){2,}")

WORDS: dict[str, tuple[bytes, ...]] = {
    "comet": (b"\x00\x01\x00", b"\x00\x02", b"@topic", b"\xff\xff", b"\x7f\xff", b"\xc3\xa9"),
    "tny": (b"tny.", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\x0f", b"\x0a\x00", b"\x64\0\0\0"),
    "relay": (b"rpk", b"\x09", b"\x11", b"\x52\x04\x7f\0\0\1", b"\x52\x10", b"\x1b\x1c", b"\x0b\f"),
    "magline": (b"\x7f\x66\x00\x01", b"\x7e\x66\x00\x06", b"\x00\x10", b"\x00\x04", b"\x00\x20"),
    "esnp": (
        *(bytes([tag]) for tag in (0x10, 0x11, 0x14, 0x15, 0x17, 0x1B, 0x1C, 0x1E, 0x1F)),
        b"\x00\x00\x00\x00",
        b"\x15\x02",
        b"\x17\x02",
        b"\x18\x04ab",
        b"\x0d\x7f\x80\x00\x01",
        b"\x0e\x7f\xf0\x00\x00\x00\x00\x00\x01",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ),
}
"""Magic values, edges of varints, and heads that begin something."""


def vectors(name: str) -> Iterator[bytes]:
    """Everything in the vectors of a protocol that is written in hexadecimal digits."""
    path = VECTORS / f"{FILES.get(name, name)}.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        yield from _hex_in(json.loads(line))


def _hex_in(value: Any) -> Iterator[bytes]:
    match value:
        case str() if _HEX.fullmatch(value) and len(value) <= 2 * MOST:
            yield bytes.fromhex(value)
        case list():
            for each in value:
                yield from _hex_in(each)
        case dict():
            for each in value.values():
                yield from _hex_in(each)
        case _:
            pass


def samples(name: str) -> Iterator[bytes]:
    """Messages of every dialect and direction, and layouts that stand inside others; always the
    same ones."""
    protocol = find(name)
    for dialect in protocol.dialects:
        for direction in ("c2s", "s2c") if protocol.directed else (None,):
            drawn = _drawn(messages(protocol, dialect, direction), SAMPLES)
            yield from (protocol.encode(message, dialect=dialect) for message in drawn)
        codec = protocol.codec(dialect)
        for layout in protocol.layouts(dialect):
            write = getattr(codec, f"write_{layout.name}", None)
            if write is not None:
                yield from (write(value) for value in _drawn(values(layout), 3))


def _drawn(strategy: Any, count: int) -> list[Any]:
    found: list[Any] = []

    @seed(0)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


def write_seeds(name: str, folder: Path) -> int:
    """Writes the seeds of a protocol into a folder, one file each; how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {data for data in (*vectors(name), *samples(name)) if len(data) <= MOST}
    for data in found:
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    return len(found)


def write_dictionary(name: str, path: Path) -> None:
    """Writes the words of a protocol in the form that libFuzzer reads."""
    quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in WORDS[name])
    path.write_text("".join(f'"{word}"\n' for word in quoted), encoding="ascii")
