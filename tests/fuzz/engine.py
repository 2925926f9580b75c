"""One fuzzing process: a target, a corpus, and a record of what happened.

    python engine.py NAME EXECUTIONS SECONDS WORK

`soak.py` starts it. With atheris the inputs are guided by coverage. Where no atheris can be
installed, they are mutations of the seeds alone; the record says which.

The process ends itself after the last execution, since libFuzzer never returns. The record is
written from time to time too, so that one that is killed leaves what it knew.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import atheris  # type: ignore[import-untyped]
except ImportError:
    atheris = None

# Codecs are modules too: the target must be made in here, or nothing of them is counted.
with atheris.instrument_imports(include=["wirelake"]) if atheris else contextlib.nullcontext():
    from tests.fuzz import mutators, targets

    TARGET = targets.Target(sys.argv[1])

if TYPE_CHECKING:
    from collections.abc import Callable

CRASHES = 20
"""Different findings that are kept before a process gives up."""
SAVE_EVERY = 20_000


class Session:
    """Counts executions and keeps findings."""

    def __init__(self, target: targets.Target, executions: int, seconds: float, work: Path):
        self.target = target
        self.executions = executions
        self.work = work
        self.started = time.monotonic()
        self.deadline = self.started + seconds if seconds else float("inf")
        self.crashes: dict[str, dict[str, str]] = {}

    def one(self, data: bytes) -> None:
        """One execution; a finding is kept, and the next one follows."""
        target = self.target
        try:
            target.run(data)
        except Exception as error:
            self.keep(error, data)
        done = target.executions
        if done % SAVE_EVERY == 0 and done < self.executions:
            self.save(finished=False)
        if done >= self.executions or len(self.crashes) >= CRASHES or self.late(done):
            self.end()

    def late(self, done: int) -> bool:
        return done % 256 == 0 and time.monotonic() > self.deadline

    def keep(self, error: Exception, data: bytes) -> None:
        """Findings with the same origin are kept once."""
        frames = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
        origin = f"{type(error).__name__} at {where}"
        text = "".join(traceback.format_exception_only(error)).strip()
        self.crashes.setdefault(origin, {"origin": origin, "error": text, "hex": data.hex()})

    def save(self, *, finished: bool) -> None:
        """Writes the record at once, by a rename."""
        target, seconds = self.target, time.monotonic() - self.started
        record: dict[str, Any] = {
            "engine": "atheris" if atheris else "mutations",
            "finished": finished,
            "executions": target.executions,
            "past_head": target.past_head,
            "share_past_head": round(target.past_head / max(1, target.executions), 4),
            "messages": target.messages,
            "seconds": round(seconds, 2),
            "executions_per_second": round(target.executions / max(seconds, 1e-9)),
            "codes": sorted(target.codes),
            "corpus": len(list((self.work / "corpus").iterdir())),
            "crashes": list(self.crashes.values()),
        }
        partial = self.work / "record.json.part"
        partial.write_text(json.dumps(record), encoding="utf-8")
        partial.replace(self.work / "record.json")

    def end(self) -> NoReturn:
        """Leaves libFuzzer, which does not stop for a return."""
        self.save(finished=True)
        os._exit(0)


def guided(session: Session) -> None:
    """Lets libFuzzer choose the inputs."""
    name, work = session.target.name, session.work

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        return mutators.mutated(name, data, atheris.Mutate, most, Random(seed))

    arguments = [
        sys.argv[0],
        f"-max_len={mutators.MOST}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-seed=1",
        "-len_control=0",
        "-print_pcs=0",
        f"-dict={work / 'words'}",
        f"-artifact_prefix={work}/",
        str(work / "corpus"),
        str(work / "seeds"),
    ]
    atheris.Setup(arguments, session.one, custom_mutator=mutator)
    atheris.Fuzz()


def unguided(session: Session) -> None:
    """Changes the seeds at random."""
    seeds = [path.read_bytes() for path in sorted((session.work / "seeds").iterdir())]
    rng = Random(1)
    change = random_change(rng)
    while True:
        data = rng.choice(seeds)
        session.one(mutators.mutated(session.target.name, data, change, mutators.MOST, rng))


def random_change(rng: Random) -> Callable[[bytes, int], bytes]:
    """Some bytes altered, inserted, removed or doubled."""

    def change(data: bytes, most: int) -> bytes:
        out = bytearray(data or b"\0")
        for _ in range(rng.randrange(1, 5)):
            at, kind = rng.randrange(len(out)), rng.randrange(4)
            if kind == 0:
                out[at] = rng.randrange(256)
            elif kind == 1:
                out[at:at] = rng.randbytes(rng.randrange(1, 9))
            elif kind == 2 and len(out) > 1:
                del out[at : at + rng.randrange(1, 9)]
            else:
                out[at:at] = out[at : at + rng.randrange(1, 17)]
            out = out or bytearray(1)
        return bytes(out[:most])

    return change


def main() -> None:
    """Runs until the process ends itself."""
    executions, seconds, work = sys.argv[2:]
    session = Session(TARGET, int(executions), float(seconds), Path(work))
    if atheris:
        TARGET.measuring = False  # `soak.py` measures the corpus, without instrumentation
        guided(session)
    else:
        unguided(session)


if __name__ == "__main__":
    main()
