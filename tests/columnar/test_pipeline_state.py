"""A pipeline that stops and goes on reads what one reads that never stopped."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.columnar import made_captures as made
from tests.columnar.differential import PROTOCOLS, _Talk, differences, write_capture
from tests.columnar.steps import check_steps, split

from wirelake.capture.format import constants as f
from wirelake.capture.format.writer import PcapngWriter, PcapWriter
from wirelake.capture.tcp import headers as make
from wirelake.columnar.fold.event_builder import id_hash
from wirelake.columnar.pipeline.pipeline import CapturePipeline
from wirelake.columnar.pipeline.state import PipelineState
from wirelake.columnar.tcp.frontend import FrontEnd
from wirelake.protocols import registry
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE_PROTOCOL
from wirelake.protocols.magline.records import DirectionKeys, RecordCipher
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import PROTOCOL as TNY_PROTOCOL
from wirelake.protocols.tny.transform import PacketContext, TransformConfig
from wirelake.traffic import simulate

pytestmark = pytest.mark.slow

NOW = 1_767_225_600_000_000_000
SECOND = 1_000_000_000
HELLO = MAGLINE_PROTOCOL.encode(
    magline.Frame(seq=1, body=magline.Syn(random=bytes(32), public_key=bytes(32)))
)


def random_steps(rng: random.Random, paths: Sequence[Path]) -> list[tuple[list[str], int]]:
    """The captures cut into small files, a few of them in each step, for 1 to 3 shares."""
    parts = [part for path in paths for part in split(path, rng.randrange(2, 7), rng)]
    steps: list[tuple[list[str], int]] = []
    while parts:
        count = rng.randrange(1, 4)
        steps.append((parts[:count], rng.randrange(1, 4)))
        parts = parts[count:]
    return steps


# -- whatever the steps and the shares -------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "window_bytes"),
    [
        ("recorder", 20_000),
        ("tcpdump", 3_000),
        pytest.param("tcpdump", 20_000, marks=pytest.mark.soak),
        pytest.param("recorder", 1 << 25, marks=pytest.mark.soak),
    ],
)
def test_simulated_captures(tmp_path: Path, style: str, window_bytes: int) -> None:
    out = tmp_path / "out"
    simulate(out, size=250_000, seed=window_bytes, faults=0.01, style=style, jobs=1)
    keys = sorted(str(path) for path in out.glob("*.keys"))
    steps = random_steps(random.Random(window_bytes), sorted(out.glob("*.pcap*")))
    check_steps(steps, keys=keys, window_bytes=window_bytes)


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (3, 4, 5))]
)
def test_connections_in_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Holes, copies, resets, ports that are used again; more connections than are held."""
    rng = random.Random(seed)
    held = rng.choice([3, 1000])
    monkeypatch.setitem(FrontEnd.__init__.__kwdefaults__ or {}, "connections", held)
    path = tmp_path / "made.pcap"
    path.write_bytes(made.pcap(rng, made.talks(rng, 40, rng.choice([0.1, 0.5]))))
    check_steps(random_steps(rng, [path]), window_bytes=rng.choice([300, 1 << 20]))


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("port", [None, 12_345])
def test_corrupted_messages(tmp_path: Path, name: str, port: int | None) -> None:
    """Faults whose end is not found; ports that nobody knows, whose bytes must tell."""
    path = tmp_path / f"{name}.pcap"
    write_capture(path, name, 150, seed=5, port=port)
    check_steps(random_steps(random.Random(name), [path]), window_bytes=9_000)


# -- keys ------------------------------------------------------------------------------------


class Written:
    """Files of one packet or more, of one connection."""

    def __init__(self, folder: Path, protocol: str):
        port = registry.find(protocol).port
        assert port is not None
        self.folder = folder
        self.talk = _Talk(1, port)
        self.paths: list[str] = []

    def file(self, *payloads: bytes, secrets: str = "") -> None:
        stream = io.BytesIO()
        writer = PcapngWriter(stream)
        writer.interface(f.LINK_RAW)
        if secrets:
            writer.secrets(secrets)
        for payload in payloads:
            now = NOW + len(self.paths) * SECOND
            writer.packet(now, self.talk.segment(0, payload))
        path = self.folder / f"{len(self.paths):04}.pcapng"
        path.write_bytes(stream.getvalue())
        self.paths.append(str(path))

    def steps(self) -> list[tuple[list[str], int]]:
        return one_by_one(self.paths)


def messages(paths: Sequence[str], **options: Any) -> list[dict[str, Any]]:
    found = CapturePipeline(paths, tables=("messages",), **options).batches()
    return [row for _, batch in found for row in batch.to_pylist()]  # type: ignore[union-attr]


def test_key_selectors_of_earlier_packets_are_kept(tmp_path: Path) -> None:
    """The first packet of a tny connection fixes its key; those behind it may say anything."""
    config = TransformConfig(security_keys=("one", "two"), encrypt=True, verify=True)
    context = PacketContext("seed", config)
    written = Written(tmp_path, "tny")
    for number in range(4):
        message = TNY_PROTOCOL.codec().write_message(tny.Message(id=number, body=b"text"))
        sealed = context.seal(77, message, random=bytes)
        access = 77 if number == 0 else 900 + number
        body = tny.Envelope(access_id=access, number=sealed.number, content=sealed.content)
        packet = tny.Packet(
            verify=sealed.verify, encrypt=sealed.encrypt, waste=sealed.waste, body=body
        )
        written.file(TNY_PROTOCOL.encode(packet))
    log = tmp_path / "keys"
    lines = [["one", "two"], ["others"]]
    log.write_text("\n".join(json.dumps({"protocol": "tny", "security_keys": x}) for x in lines))
    assert [row["body"] for row in messages(written.paths, keys=[log])] == [b"text"] * 4
    check_steps(written.steps(), keys=[log])


def magline_request(cipher: RecordCipher, seq: int, text: bytes) -> bytes:
    request = magline.Req(business_cmd=7, hmac=bytes(16), data=text)
    return cipher.seal_data(MAGLINE_PROTOCOL.encode(magline.Frame(seq=seq, body=request)))


def test_the_newest_key_of_a_connection_is_used_and_those_in_captures_are_kept(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path, "magline")
    syn = magline.Frame(seq=1, body=magline.Syn(random=b"\xab" * 32, public_key=bytes(32)))
    ciphers, lines = [], []
    for key in (b"\x22", b"\x44"):
        ciphers.append(RecordCipher(DirectionKeys(key * 32, b"\x33" * 12, bytes(32))))
        keys = {"c2s_enc": (key * 32).hex(), "c2s_iv": "33" * 12}
        lines.append(json.dumps({"protocol": "magline", "client_random": "ab" * 32, **keys}))
    written.file(MAGLINE_PROTOCOL.encode(syn), secrets=lines[0])
    written.file(magline_request(ciphers[0], 2, b"first"))
    written.file(magline_request(ciphers[1], 3, b"second"), secrets=lines[1])
    written.file(magline_request(ciphers[1], 4, b"third"))
    assert [row["body"] for row in messages(written.paths)] == [None, b"first", b"second", b"third"]
    assert differences(written.paths) == []
    check_steps(written.steps())


# -- streams ---------------------------------------------------------------------------------


def plain_files(folder: Path, files: Sequence[Sequence[tuple[int, bytes, int]]]) -> list[str]:
    """Files of packets: the second of each, the packet, and how many bytes were cut off."""
    paths = []
    for number, packets in enumerate(files):
        path = folder / f"{number}.pcap"
        with path.open("wb") as out:
            writer = PcapWriter(out, link=f.LINK_RAW)
            for second, packet, cut in packets:
                whole = len(packet)
                writer.packet(NOW + second * SECOND, packet[: whole - cut], whole)
        paths.append(str(path))
    return paths


def reset(talk: _Talk) -> bytes:
    (src, src_port), (dst, dst_port) = talk.client, talk.server
    segment = make.tcp(src_port, dst_port, seq=talk.seq[0], flags=make.RST | make.ACK)
    return make.ip(src, dst, segment)


def one_by_one(paths: Sequence[str]) -> list[tuple[list[str], int]]:
    return [([path], 1 + number % 3) for number, path in enumerate(paths)]


def test_the_protocol_of_another_stream_is_not_reused(tmp_path: Path) -> None:
    """The bytes of one direction told the protocol of both; then others get their numbers."""
    sniffed, filler, later = _Talk(1, 12_345), _Talk(2, 12_345), _Talk(3, 9620)
    files = [
        [(0, sniffed.segment(0, HELLO), 0), (0, reset(sniffed), 0)],
        [(100, filler.segment(0, b"?"), 0)],
        [(101, later.segment(way, bytes(40)), 0) for way in (0, 1)],
    ]
    assert differences(plain_files(tmp_path, files)) == []


def test_time_does_not_go_back_from_file_to_file(tmp_path: Path) -> None:
    """A connection is over from the latest time on that was seen, also in an earlier file."""
    late, ending = _Talk(1, 9620), _Talk(2, 9620)
    files = [
        [(59, late.segment(0, b"\1"), 0)],
        [(1, ending.segment(0, b"\1"), 0), (2, reset(ending), 0)],
        [(63, late.segment(0, b"\1"), 0), (64, ending.segment(0, b"\1"), 0)],
    ]
    check_steps(one_by_one(plain_files(tmp_path, files)))


def test_a_hole_is_where_it_showed(tmp_path: Path) -> None:
    """A packet that was captured up to the end of a frame, and behind which nothing comes."""
    port = MAGLINE_PROTOCOL.port
    assert port is not None
    packet = _Talk(1, port).segment(0, HELLO + bytes(30))
    paths = plain_files(tmp_path, [[], [(0, packet, 30)], []])
    _, state = saved(paths)
    assert list(state.front.files.values()) == [paths[1]]
    check_steps([(paths[:2], 2), (paths[2:], 3)])


def test_a_fault_continues_and_the_next_frame_keeps_its_start(tmp_path: Path) -> None:
    written = Written(tmp_path, "magline")
    written.file()
    written.file(b"what is this?")
    written.file(b"and that?", HELLO[:20])
    written.file(HELLO[20:])
    [reader] = saved(written.paths[:3])[1].readers.values()
    assert len(reader.files()) == 2
    assert [row["file"] for row in messages(written.paths)] == [written.paths[2]]
    check_steps([(written.paths[:3], 2), (written.paths[3:], 3)])
    check_steps(written.steps())


# -- the state itself ------------------------------------------------------------------------


def recording(path: Path, connections: int = 30) -> None:
    """Connections that a recorder has numbered, and a fact about each."""
    with path.open("wb") as out:
        writer = PcapngWriter(out)
        writer.interface(f.LINK_RAW)
        for number in range(1, connections + 1):
            talk = _Talk(number, 9620)
            writer.fact("sign_on", NOW + number, number * 7919, client="someone")
            marks = writer.marks(number * 7919, "c2s")
            writer.packet(NOW + number, talk.segment(0, b"\1"), options=marks)


def saved(paths: Sequence[str | Path], **options: Any) -> tuple[CapturePipeline, PipelineState]:
    pipeline = CapturePipeline([str(path) for path in paths], **options)
    for window in pipeline.windows(last=False):
        for _ in window:
            pass
    return pipeline, pipeline.save()


def test_saving_disturbs_nothing_and_a_state_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    rng = random.Random(3)
    path.write_bytes(made.pcap(rng, made.talks(rng, 40, 0.5)))
    pipeline, state = saved([path])
    before = state.to_bytes()
    assert pipeline.save().to_bytes() == before
    assert [table for window in pipeline.end() for table, _ in window]
    assert state.to_bytes() == before


def test_hashes_select_the_shares(tmp_path: Path) -> None:
    path = tmp_path / "recorded.pcapng"
    recording(path)
    of_one = saved([path])[1].hashes()
    assert len(of_one) == 30
    assert {at: number % 3 for at, number in of_one.items()} == {
        connection: share
        for share in range(3)
        for connection in saved([path], share=share, shares=3)[1].hashes()
    }
    assert all(id_hash(at) % 3 == number % 3 for at, number in of_one.items())


def test_facts_go_to_one_share_or_to_all(tmp_path: Path) -> None:
    path = tmp_path / "recorded.pcapng"
    recording(path)

    def emitted(**options: Any) -> list[int]:
        counts = []
        for share in range(3):
            found = CapturePipeline(path, tables=("facts",), share=share, shares=3, **options)
            counts.append(sum(len(facts) for table, facts in found.batches() if table == "facts"))
        return counts

    assert emitted() == [30, 0, 0]
    assert emitted(all_facts=True) == [30, 30, 30]


def test_only_files_that_something_refers_to_are_kept(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.pcap" for number in range(3)]
    for number, path in enumerate(paths):
        with path.open("wb") as out:
            writer = PcapWriter(out, link=f.LINK_RAW)
            if number != 1:
                writer.packet(NOW, _Talk(number, 9620).segment(0, b"\1"))
    state = saved(paths)[1]
    assert set(state.front.files.values()) == {str(paths[0]), str(paths[2])}
    again = saved([], state=state)[1]
    assert sorted(again.front.files) == [0, 1]


def test_the_states_of_all_shares_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "recorded.pcapng"
    recording(path)
    states = [saved([path], share=share, shares=2)[1] for share in (0, 1)]
    elsewhere = saved([path, path], share=1, shares=2)[1]
    for wrong in (states[:1], states[1:], [states[0], states[0]], [states[0], elsewhere]):
        with pytest.raises(ValueError, match="state: expected those of all shares"):
            CapturePipeline([], state=wrong)
    assert len(saved([], state=states[::-1])[1].hashes()) == 30


def test_what_is_not_read_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "recorded.pcapng"
    recording(path)
    pipeline = CapturePipeline(path)
    with pytest.raises(ValueError, match="save: only allowed after windows"):
        pipeline.save()
    for _ in pipeline.batches():
        pass
    with pytest.raises(ValueError, match="save: only allowed after windows"):
        pipeline.save()
    with pytest.raises(ValueError, match="end: only allowed after windows"):
        next(iter(pipeline.end()))
