"""The load generator of `benchmarks/c/hub_load*.c`: compiled, run, and what it found.

It is C because it shares the machine with the server: what it costs would otherwise be measured.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["COMPILER", "Generator", "Load", "LoadError", "build", "has_openssl"]

COMPILER = ("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2")
SOURCES = Path(__file__).parent / "c"
_TIMEOUT_S = 300.0
"""No run takes so long: connections open within two minutes, and seconds are given."""


class LoadError(Exception):
    """The generator gave up; the message is its own."""


@dataclass(frozen=True)
class Load:
    """What one run found."""

    count: int
    """Deliveries or answers in the measured time."""
    seconds: float
    rate: float
    """Of deliveries or answers, in a second."""
    sent_rate: float
    """Of publishes or requests."""
    busy: float
    """The share of its core that the generator used; with a fixed rate it always uses all."""
    sent: int
    """Publishes or requests, before and after the measured time too."""
    lost: int
    """Deliveries or answers that have not come."""
    faults: int
    """Refusals, and what came wrong or out of order."""
    fault: str
    """The first of them."""
    frames_in: int
    """Frames that came, of the whole run."""
    frames_out: int
    open_s: float
    """How long it took until all connections were ready."""
    p50_us: float
    """Only with a fixed rate."""
    p99_us: float
    p999_us: float


@dataclass(frozen=True)
class Generator:
    """The compiled program."""

    program: Path
    core: int
    """Where it runs."""
    can_seal: bool
    """Whether it was built with OpenSSL, for magline and TLS."""

    def run(self, mode: str, **options: Any) -> Load:
        """One run; options are those of the program, `True` for those without a value."""
        words = self._words(mode, options)
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        if done.returncode != 0:
            raise LoadError(done.stderr.strip() or f"ended with {done.returncode}")
        return Load(**json.loads(done.stdout))

    @contextmanager
    def held(self, **options: Any) -> Iterator[None]:
        """Connections that are open meanwhile and do nothing."""
        words = self._words("idle", options)
        with subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                if process.stdout.readline() != "ready\n":
                    raise LoadError(process.stderr.read().strip() or "ended too soon")
                yield
                process.communicate("", timeout=_TIMEOUT_S)
            finally:
                process.kill()

    def _words(self, mode: str, options: dict[str, Any]) -> list[str]:
        words = [str(self.program), "--mode", mode, "--core", str(self.core)]
        for name, value in options.items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(str(value))
        return words


def build(folder: Path, core: int) -> Generator:
    """Compiles the generator into a folder."""
    if shutil.which(COMPILER[0]) is None:
        raise RuntimeError("the load generator needs gcc: make system")
    program = folder / "hub_load"
    can_seal = has_openssl()
    sealing = ["-DHUB_LOAD_TLS", "-lssl", "-lcrypto"] if can_seal else []
    sources = sorted(SOURCES.glob("hub_load*.c"))
    subprocess.run([*COMPILER, "-o", program, *sources, *sealing], check=True)
    return Generator(program, core, can_seal)


def has_openssl() -> bool:
    """Whether programs can be built with OpenSSL here."""
    checked = subprocess.run(
        [COMPILER[0], "-fsyntax-only", "-x", "c", "-"],
        check=False,
        input="#include <openssl/ssl.h>\n",
        text=True,
        capture_output=True,
    )
    return checked.returncode == 0
