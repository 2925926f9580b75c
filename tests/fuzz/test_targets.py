"""The fuzzing itself: that it would notice, that its mutations fit, and where it starts."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from tests.fuzz import mutators, seeds, targets
from tests.fuzz.targets import BrokenPromiseError, Inner, Speech, Target

from wirelake.protocols.registry import find
from wirelake.wire import DecodeError, NeedMore


@pytest.fixture(params=targets.TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return Target(request.param)


def test_every_vector_passes(target: Target) -> None:
    found = list(seeds.vectors(target.name))
    for data in found:
        target.run(data)
    assert len(found) > 50
    assert target.executions == len(found)
    assert target.messages > 20
    assert len(target.codes) > 3


def test_every_dialect_and_direction_is_tried(target: Target) -> None:
    protocol = find(target.name)
    wanted = len(protocol.dialects) * (2 if protocol.directed else 1)
    assert len({speech.name for speech in target.speeches}) == wanted
    assert len({inner.name for inner in target.inners}) == len(target.inners)


def test_layouts_inside_slices_are_tried() -> None:
    names = {inner.name for inner in Target("tny").inners}
    assert {"tny.seed.message", "tny.upstream.forward_header", "tny.seed.tracing_header"} <= names
    assert "relay.upstream.tunnel_connected" in {inner.name for inner in Target("relay").inners}
    assert {"esnp.seed.var", "esnp.go.var"} <= {inner.name for inner in Target("esnp").inners}


def test_what_a_packet_holds_is_tried_too() -> None:
    target = Target("tny")
    (stage,) = target.stages
    assert [inner.name for inner in stage.inner] == ["tny.seed.message", "tny.upstream.message"]
    seen: list[bytes] = []
    target.slice = lambda _inner, data: seen.append(data)  # type: ignore[method-assign,assignment]
    target.run(b"tny.\0\7\0\0\0\1\1hello")
    assert seen.count(b"hello") == 4


# -- it would notice -------------------------------------------------------------------------


def speech(decode: Any, *, scan: Any = None, encode: Any = None) -> Speech:
    return Speech(
        "invented", decode, scan or (lambda _buf, _pos, end: end), encode or (lambda value: value)
    )


def alone(**functions: Any) -> Target:
    """A target whose only speech is an invented one."""
    target = Target("comet")
    target.speeches = [speech(**functions)]
    target.inners = [Inner("nothing", lambda _buf, pos, _end: (None, pos), lambda _value: b"")]
    return target


def raising(error: Exception) -> Any:
    def decode(_buf: bytes, _pos: int, _end: int) -> Any:
        raise error

    return decode


@pytest.mark.parametrize("error", [IndexError("x"), RecursionError(), UnicodeError(), KeyError(1)])
def test_an_undocumented_exception_is_a_finding(error: Exception) -> None:
    with pytest.raises(type(error)):
        alone(decode=raising(error)).run(b"abc")


@pytest.mark.parametrize(
    "error",
    [
        DecodeError("no_such_code", "a.b", 0),
        DecodeError("short", "a.b", None),
        DecodeError("short", "a.b", 4),
        DecodeError("short", "a.b", -1),
        DecodeError("short", "", 0),
        NeedMore(0),
        NeedMore(-2),
    ],
)
def test_an_answer_that_does_not_fit_is_a_finding(error: Exception) -> None:
    with pytest.raises(BrokenPromiseError):
        alone(decode=raising(error)).run(b"abc")


def test_documented_answers_are_none() -> None:
    alone(decode=raising(NeedMore(1))).run(b"abc")
    target = alone(decode=raising(DecodeError("short", "a.b", 3)))
    target.run(b"abc")
    assert target.codes == {"short"}


def test_scanning_that_disagrees_is_a_finding() -> None:
    broken = alone(decode=lambda buf, pos, end: (buf[pos:end], end), scan=lambda *_: 1)
    with pytest.raises(BrokenPromiseError, match="scanning"):
        broken.run(b"abc")


def test_a_message_that_changes_on_its_way_is_a_finding() -> None:
    def decode(buf: bytes, pos: int, end: int) -> tuple[bytes, int]:
        return buf[pos:end], end

    with pytest.raises(BrokenPromiseError, match="another thing"):
        alone(decode=decode, encode=lambda value: value[1:]).run(b"abc")


def test_a_reader_that_looks_behind_its_bytes_is_a_finding() -> None:
    def decode(buf: bytes, pos: int, _end: int) -> tuple[bytes, int]:
        return buf[pos:], len(buf)

    target = alone(decode=decode)
    with pytest.raises(BrokenPromiseError, match="before other bytes"):
        target.around(target.speeches[0], b"abc")

    def leave(_buf: bytes, _pos: int, end: int) -> tuple[None, int]:
        return None, end + 1

    with pytest.raises(BrokenPromiseError, match="outside"):
        target.slice(Inner("leaves", leave, lambda _value: b""), b"abc")


def test_a_reader_that_depends_on_where_it_starts_is_a_finding() -> None:
    def decode(buf: bytes, pos: int, end: int) -> tuple[tuple[bytes, int], int]:
        return (buf[pos:end], pos), end

    target = alone(decode=decode)
    with pytest.raises(BrokenPromiseError, match="behind other bytes"):
        target.around(target.speeches[0], b"abc")


def test_a_reader_that_takes_too_much_memory_is_a_finding() -> None:
    def decode(buf: bytes, _pos: int, end: int) -> tuple[bytes, int]:
        return bytes(end * 100_000), len(buf)

    with pytest.raises(BrokenPromiseError, match="bytes of memory"):
        alone(decode=decode).measure(decode, b"abcd")


def test_a_reader_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 5.0])
    monkeypatch.setattr(time, "process_time", lambda: next(times))
    with pytest.raises(BrokenPromiseError, match=r"5\.0 s"):
        alone(decode=None).measure(raising(NeedMore(1)), b"abcd")


def test_the_costly_checks_are_made() -> None:
    target = Target("magline")
    seen: list[str] = []
    target.around = lambda *_: seen.append("around")  # type: ignore[method-assign]
    target.measure = lambda *_: seen.append("measure")  # type: ignore[method-assign]
    for _ in range(targets.MEASURE_EVERY):
        target.run(b"")
    assert seen.count("around") == targets.MEASURE_EVERY // targets.AROUND_EVERY
    assert seen.count("measure") == len(target.speeches) + len(target.inners)
    target.measuring = False
    for _ in range(targets.MEASURE_EVERY):
        target.run(b"")
    assert seen.count("measure") == len(target.speeches) + len(target.inners)


@pytest.mark.parametrize("name", targets.TARGETS)
def test_large_inputs_stay_inside_the_memory_that_is_allowed(name: str) -> None:
    """The worst there is: as many values as bytes."""
    target = Target(name)
    many = b"\x17\xfe\xff\x03" + bytes(65_000)
    rows = b"\x80\0\0\0" * 20_000 + bytes(4)
    groups = b"\x0b" * 60_000
    fields = b"\x0a\x00" * 30_000
    for data in (many, rows, groups, fields, bytes(60_000), b"\xff" * 60_000):
        for one in target.speeches:
            target.measure(one.decode, data)
        for inner in target.inners:
            target.measure(inner.read, data)


# -- mutations -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_repaired_input_gets_past_the_head(name: str) -> None:
    target, rng = Target(name), Random(7)
    for size in range(200):
        data = mutators.FIXES[name](rng.randbytes(size), rng)
        target.run(data)
    assert target.past_head >= 0.95 * target.executions


@pytest.mark.parametrize("name", targets.TARGETS)
def test_some_inputs_are_left_alone(name: str) -> None:
    rng = Random(1)
    left = sum(
        mutators.mutated(name, b"abcdefgh" * 4, lambda data, _: data, 4096, rng) == b"abcdefgh" * 4
        for _ in range(1000)
    )
    assert 100 < left < 300


@pytest.mark.parametrize("name", targets.TARGETS)
def test_mutations_stay_inside_the_size(name: str) -> None:
    rng = Random(1)
    for size in (0, 1, 5, 4096):
        data = mutators.mutated(name, bytes(size), lambda data, _: data, 4096, rng)
        assert len(data) <= 4096


# -- seeds -----------------------------------------------------------------------------------


def test_there_are_seeds(target: Target, tmp_path: Any) -> None:
    count = seeds.write_seeds(target.name, tmp_path / "seeds")
    files = list((tmp_path / "seeds").iterdir())
    assert len(files) == count > 100
    for path in files:
        target.run(path.read_bytes())
    assert target.messages > 50


def test_words_are_written_as_libfuzzer_reads_them(target: Target, tmp_path: Any) -> None:
    seeds.write_dictionary(target.name, tmp_path / "words")
    lines = (tmp_path / "words").read_text().splitlines()
    assert len(lines) == len(seeds.WORDS[target.name])
    assert all(line.startswith('"\\x') and line.endswith('"') for line in lines)
