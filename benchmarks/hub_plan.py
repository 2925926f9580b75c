"""What the parts of `benchmarks.hub` share: sizes, servers, contenders, and taking turns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .hub_load import Generator, Load, LoadError
from .hub_ours import OurHub, hub
from .hub_servers import PEERS, Server, peer

__all__ = ["NOTHING", "Contender", "Plan", "turns"]

NOTHING = Load(0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, "", 0, 0, 0.0, 0.0, 0.0, 0.0)
"""Of a contender that gave up."""


@dataclass(frozen=True)
class Contender:
    """Somebody that is measured, and how the generator reaches it."""

    name: str
    options: Mapping[str, Any]

    def having(self, **options: Any) -> Contender:
        """The same with more options."""
        return replace(self, options={**self.options, **options})


@dataclass(frozen=True)
class Plan:
    """Where to work, and how much."""

    folder: Path
    """Of this part alone; removed after it."""
    generator: Generator
    server_core: int
    rounds: int = 3
    seconds: float = 1.0
    """How long each run is measured."""
    scale: float = 1.0
    """Of numbers of connections; 1 is the full run."""
    files: int = 1 << 20
    """Sockets that a process may have."""

    def connections(self, count: int) -> int:
        """A number of connections of the full run, as this run has it."""
        return max(2, min(int(count * self.scale), self.files - 200))

    def several(self, counts: Iterable[int]) -> list[int]:
        """Numbers of connections as this run has them, each once."""
        return list(dict.fromkeys(self.connections(count) for count in counts))

    def hub(self, stack: ExitStack, clients: int, name: str = "hub", **options: Any) -> OurHub:
        """A hub for as long as the stack lasts."""
        return stack.enter_context(hub(self.folder / name, self.server_core, clients, **options))

    def peers(self, stack: ExitStack, names: Iterable[str] = tuple(PEERS)) -> list[Server]:
        """Peers for as long as the stack lasts."""
        return [stack.enter_context(peer(name, self.folder, self.server_core)) for name in names]

    def run(self, contender: Contender, mode: str, **options: Any) -> Load:
        """One run; what goes wrong is told, and counts as nothing done."""
        given = {"seconds": self.seconds, "warm": self.seconds / 5, **contender.options, **options}
        try:
            load = self.generator.run(mode, **given)
        except LoadError as error:
            print(f"{contender.name} {mode} {options}: {error}", file=sys.stderr)
            return NOTHING
        if load.lost or load.faults:
            said = f"{load.lost} lost, {load.faults} faults {load.fault}"
            print(f"{contender.name} {mode} {options}: {said}", file=sys.stderr)
        return load


def turns(
    runs: Mapping[str, Mapping[str, Callable[[], Load]]], rounds: int
) -> dict[str, dict[str, list[Load]]]:
    """Runs by row and contender; contenders take turns in changing order."""
    found: dict[str, dict[str, list[Load]]] = {
        row: {name: [] for name in contenders} for row, contenders in runs.items()
    }
    for turn in range(rounds):
        for row, contenders in runs.items():
            names = list(contenders)
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                found[row][name].append(contenders[name]())
    return found
