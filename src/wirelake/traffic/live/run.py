"""Runs a performance and writes its truth.

summary = perform(Stage("http://127.0.0.1:9680", Path("hub-data")), Path("live"))
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..plan import SimulateError
from .hub_address import Stage
from .simulation import Told, performed
from .truth import LiveSummary, write_truth

__all__ = ["perform"]

_MOST_SCALE: Final = 10.0
"""A few thousand connections; more do not fit one process."""


def perform(
    stage: Stage,
    out: Path,
    *,
    seconds: float = 20.0,
    seed: int = 0,
    scale: float = 1.0,
    told: Told | None = None,
) -> LiveSummary:
    """Performs for a while on a hub that runs, and writes what a reader must find of it.

    `scale` 1 is a population for two cores: some hundreds of connections. `told` is told how far
    it is. The folder must be empty or new. SimulateError says what is in the way, in one line.
    """
    if not 0 < seconds <= 86_400:
        raise SimulateError("seconds: wanted more than 0, and a day at most")
    if not 0 < scale <= _MOST_SCALE:
        raise SimulateError(f"scale: wanted more than 0, and {_MOST_SCALE:.0f} at most")
    _check(out)
    ledger = performed(stage, seconds=seconds, seed=seed, scale=scale, told=told)
    try:
        out.mkdir(parents=True, exist_ok=True)
        asked = {"admin": stage.admin, "seconds": seconds, "seed": seed, "scale": scale}
        return write_truth(out, ledger, asked)
    except OSError as error:
        raise SimulateError(f"{out}: {error.strerror or error}") from error


def _check(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise SimulateError(f"{out}: not a folder")
    if out.is_dir() and any(out.iterdir()):
        raise SimulateError(f"{out}: not empty")
