"""Coverage-guided fuzz targets, one for each protocol: any bytes to every decoder.

    python tests/fuzz/targets.py comet --runs 100000 --stats FILE --corpus FOLDER

The first byte of an input chooses dialect and direction, the rest is the stream. A decoder may
answer with a message, `NeedMore` or `DecodeError` with a listed code; anything else is a crash.
What decodes must encode, and its bytes must decode to what they came from. The content of a tny
packet goes on to the decoder of messages.

Random bytes rarely get past a frame head, so the mutator mends magic values and lengths in three
of four inputs (`mending.py`). An input is *past the head* when its first frame is delimited: magic,
version, command and lengths have been accepted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["wirehouse.wire.runtime", "wirehouse.protocols"]):
    from tests.fuzz.mending import MENDERS

    from wirehouse.wire.errors import CODES, DecodeError, NeedMore

    for _package in ("comet", "esnp", "magline", "tny"):
        importlib.import_module(f"wirehouse.protocols.{_package}.layout")
    from wirehouse.protocols.registry import find
    from wirehouse.protocols.tny import codec_seed, codec_upstream
    from wirehouse.protocols.tny.layout import Envelope, Packet

STATS_EVERY = 20_000


def check(holds: bool, what: str) -> None:
    """A broken promise is a crash to the fuzzer."""
    if not holds:
        raise AssertionError(what)


class Target:
    """One protocol under fire, and what has been seen of it."""

    def __init__(self, name: str, stats: Path, runs: int):
        self.name = name
        self.stats_file = stats
        self.runs = runs
        protocol = find(name)
        frame = protocol.model().name
        directions = ("_c2s", "_s2c") if protocol.directed else ("",)
        self.variants: list[tuple[Any, Any, Any]] = []
        for dialect in protocol.dialects:
            codec = protocol.codec(dialect)
            for way in directions:
                self.variants.append(
                    (
                        getattr(codec, f"scan_{frame}"),
                        getattr(codec, f"decode_{frame}{way}"),
                        getattr(codec, f"encode_{frame}"),
                    )
                )
        self.executions = self.past_head = self.decoded = 0
        self.codes: Counter[str] = Counter()

    def one_input(self, data: bytes) -> None:
        """What atheris calls."""
        self.executions += 1
        if data:
            scan, decode, encode = self.variants[data[0] % len(self.variants)]
            self.past_head += self.judge(data[1:], scan, decode, encode)
        if self.executions % STATS_EVERY == 0 or self.executions >= self.runs:
            self.write_stats()

    def judge(self, stream: bytes, scan: Any, decode: Any, encode: Any) -> bool:
        """Decodes a stream of frames; whether its first frame was delimited."""
        pos, end, past = 0, len(stream), False
        while pos < end:
            try:
                stop = scan(stream, pos, end)
                past = True
                message, after = decode(stream, pos, end)
            except NeedMore as more:
                check(more.need > 0, "need nothing")
                return past
            except DecodeError as error:
                check(error.code in CODES, error.code)
                self.codes[error.code] += 1
                return past
            check(after == stop, f"scan says {stop}, decode {after}")
            self.decoded += 1
            again = encode(message)
            twin, length = decode(again, 0, len(again))
            check(length == len(again) and encode(twin) == again, "not the same again")
            if isinstance(message, Packet) and isinstance(message.body, Envelope):
                self.judge_message(message.body.content)
            pos = stop
        return past

    def judge_message(self, content: bytes) -> None:
        """What a tny packet without transforms holds."""
        for codec in (codec_seed, codec_upstream):
            try:
                message, stop = codec.read_message(content, 0, len(content))
            except DecodeError as error:
                check(error.code in CODES, error.code)
                self.codes[error.code] += 1
                continue
            check(stop <= len(content), "read past the end")
            again = codec.write_message(message)
            twin, _ = codec.read_message(again, 0, len(again))
            check(twin == message, "not the same again")

    def write_stats(self) -> None:
        """Keeps the figures: the fuzzer ends its process without returning."""
        record = {
            "executions": self.executions,
            "past_head": self.past_head,
            "decoded": self.decoded,
            "codes": dict(sorted(self.codes.items())),
        }
        self.stats_file.write_text(json.dumps(record), encoding="utf-8")


def main() -> None:
    """Runs one target until its runs are done or something breaks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("protocol", choices=sorted(MENDERS))
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--stats", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    target = Target(args.protocol, args.stats, args.runs)
    mend = MENDERS[args.protocol]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        changed = atheris.Mutate(data, max_size)
        if not changed or seed % 4 == 0:
            return bytes(changed)
        return bytes(changed[:1]) + mend(bytes(changed[1:]))[: max_size - 1]

    options = [
        sys.argv[0],
        f"-runs={args.runs}",
        f"-seed={args.seed}",
        "-max_len=600",
        "-print_final_stats=1",
        "-timeout=20",
        f"-artifact_prefix={args.stats.parent}/{args.protocol}-",
        str(args.corpus),
    ]
    atheris.Setup(options, target.one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
