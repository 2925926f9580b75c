"""The file format of saved state: data only, and one line for everything that is not one."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from numpy.typing import NDArray
from tests.columnar import made_captures as made
from tests.columnar.folding_scenes import window_of
from tests.records.scenes import ask

from wirelake.columnar import state_format
from wirelake.columnar.fold import Fold, FoldState, TunnelFold
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.columnar.pipeline.state import PipelineState
from wirelake.columnar.state_format import NewerStateError, StateError
from wirelake.records.rows import Opened

pytestmark = pytest.mark.slow

HEADER_BYTES = 24


def a_pipeline(tmp_path: Path) -> bytes:
    """The state of streams of which many are out of order, unfinished or faulty."""
    path = tmp_path / "made.pcap"
    rng = random.Random(3)
    path.write_bytes(made.pcap(rng, made.talks(rng, 40, 0.5)))
    pipeline = CapturePipeline([str(path)])
    for window in pipeline.windows(last=False):
        list(window)
    return pipeline.save().to_bytes()


def a_fold(_: Path) -> bytes:
    fold = Fold()
    events = [Opened(1, 1), Opened(1, 2), ask(9, 7, connection=1), ask(9, 7, connection=2)]
    list(fold.window(window_of(events, {2: 5})))  # the second connection waits
    return fold.save({1: 10, 2: 11}).to_bytes()


def a_tunnel_fold(_: Path) -> bytes:
    return TunnelFold().save()


STATES: dict[str, tuple[Callable[[Path], bytes], Callable[[bytes], Any]]] = {
    "pipeline": (
        a_pipeline,
        lambda data: CapturePipeline([], state=PipelineState.from_bytes(data)),
    ),
    "fold": (a_fold, lambda data: Fold(state=[FoldState.from_bytes(data)])),
    "tunnels": (a_tunnel_fold, lambda data: TunnelFold(state=data)),
}
every_kind = pytest.mark.parametrize("kind", STATES)


def refused(kind: str, data: bytes) -> str:
    with pytest.raises(StateError) as raised:
        STATES[kind][1](data)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@every_kind
def test_a_header_and_msgpack(kind: str, tmp_path: Path) -> None:
    data = STATES[kind][0](tmp_path)
    assert data[:HEADER_BYTES] == b"wirelake-state\0\2" + kind.encode().ljust(8)
    content = zstandard.ZstdDecompressor().decompress(data[HEADER_BYTES:])
    assert isinstance(msgspec.msgpack.decode(content), dict)
    assert b"wirelake.columnar" not in content  # no class is named
    STATES[kind][1](data)


@every_kind
@pytest.mark.parametrize("data", [b"", b"PAR1 and so on", b"wirelake-stat", b"wirelake-state"])
def test_foreign_bytes_are_refused(kind: str, data: bytes) -> None:
    assert refused(kind, data) == "not a Wirelake state file"


@every_kind
@pytest.mark.parametrize("head", [b"WHPS\0\0\0\1", b"wirehouse fold \0\0\0\1", b"\x92\xc4\x09WHPS"])
def test_pickles_of_release_0_1_0_are_refused_unread(kind: str, head: bytes) -> None:
    made = head + zstandard.ZstdCompressor().compress(pickle.dumps(_Trap()))
    assert refused(kind, made) == "state of release 0.1.0, which this version cannot continue from"
    assert "WIRELAKE_TRAP" not in os.environ


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.putenv, ("WIRELAKE_TRAP", "1")


@every_kind
def test_other_formats_are_refused(kind: str, tmp_path: Path) -> None:
    data = STATES[kind][0](tmp_path)
    newer, older = (data[:14] + number + data[16:] for number in (b"\1\0", b"\0\1"))
    assert refused(kind, newer) == (
        "state has format 256, this version reads 2: use a newer Wirelake"
    )
    with pytest.raises(NewerStateError):
        STATES[kind][1](newer)
    assert refused(kind, older) == "state has format 1, this version reads 2"


@every_kind
def test_the_state_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    for other in set(STATES) - {kind}:
        found = refused(kind, STATES[other][0](tmp_path))
        assert found == f"expected state of kind {kind!r}, found {other.encode()!r}"


@every_kind
def test_truncated_and_damaged_states_are_refused(kind: str, tmp_path: Path) -> None:
    data = STATES[kind][0](tmp_path)
    rng = random.Random(kind)
    for size in {
        HEADER_BYTES,
        len(data) - 1,
        *(rng.randrange(HEADER_BYTES, len(data)) for _ in range(20)),
    }:
        assert refused(kind, data[:size]).startswith("state is damaged: ")
    for _ in range(50):
        broken = bytearray(data)
        broken[rng.randrange(HEADER_BYTES, len(data))] ^= 1 << rng.randrange(8)
        if broken != data:
            assert refused(kind, bytes(broken)).startswith("state is damaged: ")


def rewritten(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """A state whose checksum is right, with other values in it."""
    found = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(data[HEADER_BYTES:]))
    change(found)
    packed = msgspec.msgpack.encode(found)
    return data[:HEADER_BYTES] + zstandard.ZstdCompressor().compress(packed)


def arrow(values: NDArray[Any]) -> bytes:
    batch = pa.record_batch({"": pa.array(values)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def with_column(stream: bytes, name: str, value: int) -> bytes:
    """An Arrow stream of which one column has another value in every row."""
    batch = pa.ipc.open_stream(stream).read_next_batch()
    at = batch.schema.get_field_index(name)
    column = pa.array([value] * batch.num_rows, batch.schema.field(at).type)
    changed = batch.set_column(at, batch.schema.field(at), column)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, changed.schema) as writer:
        writer.write_batch(changed)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("slot", 2), ("slot", -1), ("state", 0), ("state", 4), ("way", 2), ("way", -1)),
        *(("outcome", 6), ("target", 1_000), ("cause", -2)),
    ],
)
def test_numbers_that_kernels_index_with_are_checked(name: str, value: int, tmp_path: Path) -> None:
    def change(found: dict[str, Any]) -> None:
        found["memory"]["calls"] = with_column(found["memory"]["calls"], name, value)

    assert refused("fold", rewritten(a_fold(tmp_path), change)) == (
        f"state is damaged: {name} out of range"
    )


@pytest.mark.parametrize("name", ["stream", "start", "stop", "first", "last"])
def test_ranges_of_unfinished_frames_are_checked(name: str, tmp_path: Path) -> None:
    def change(found: dict[str, Any]) -> None:
        carry = found["front"]["carry"]
        count = pa.ipc.open_stream(carry[name]).read_next_batch().num_rows
        assert count
        carry[name] = arrow(np.full(count, 1 << 40, np.int64))

    found = refused("pipeline", rewritten(a_pipeline(tmp_path), change))
    assert found == "state is damaged: carry out of range"


@pytest.mark.parametrize("wrong", [None, 7, "text", b"", b"no Arrow", [1, 2]])
def test_fields_of_other_types_are_refused(wrong: Any, tmp_path: Path) -> None:
    for path in (
        ("front", "place"),
        ("front", "connections"),
        ("lives",),
        ("coverage",),
        ("front",),
    ):

        def change(found: dict[str, Any], path: tuple[str, ...] = path) -> None:
            for name in path[:-1]:
                found = found[name]
            found[path[-1]] = wrong

        data = rewritten(a_pipeline(tmp_path), change)
        assert refused("pipeline", data).startswith("state is damaged: ")


def test_a_frame_that_claims_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = TunnelFold().save()
    monkeypatch.setattr(state_format, "_MAX_BYTES", 100)
    assert refused("tunnels", data) == "state is damaged: larger than 100 bytes"


def test_no_source_file_uses_pickle() -> None:
    folder = Path(state_format.__file__).parents[1]
    sources = sorted(folder.rglob("*.py"))
    assert len(sources) > 100
    assert [path for path in sources if "pickle" in path.read_text(encoding="utf-8")] == []
