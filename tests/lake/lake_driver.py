"""Run a lake and optionally kill itself; started by tests as a program.

    python -m tests.lake.lake_driver ORDER

ORDER is an `Order` as JSON. The name of each part of a step is printed before it is done, and at
the end what came of it, as JSON. When it fails, it ends with 1 and the line that a command prints.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from tests.lake.local_engine import run_here

from wirelake.cli.errors import CommandError
from wirelake.cli.lake.run import spark_failures
from wirelake.lake import session
from wirelake.lake.engine import tasks as planning
from wirelake.lake.engine.run import Outcome, run
from wirelake.tables import writer
from wirelake.tables.paths import LakeError

__all__ = ["Done", "Order", "perform"]


class Order(msgspec.Struct, kw_only=True):
    """The options of a run; with the master `here`, without a JVM."""

    lake: str
    captures: str
    keys: list[str] = []
    master: str | None = None
    remote: str | None = None
    stream: bool = False
    """Whether a stream paces it; it ends when all is read."""
    max_files: int | None = None
    share_bytes: int | None = None
    """How much of a source is worth a task of its own."""
    window_bytes: int | None = None
    """How much of a capture is read at a time; with little, tasks take longer."""
    checkpoint_every: int | None = None
    """Commits between two checkpoints of the log."""
    die_at: str | None = None
    """The part of a step before which it kills itself, and Spark with it."""
    die_after: int = 0
    """How often that part is done before."""


class Done(msgspec.Struct):
    """The result of a run."""

    commits: int
    refused: list[str]
    waiting: list[str]


def perform(order: Order, on_step: Callable[[str], None]) -> Done:
    """Run the lake; failures of Spark raise CommandError."""
    if order.share_bytes is not None:
        planning._SHARE_BYTES = order.share_bytes  # type: ignore[misc]
    if order.checkpoint_every is not None:
        setattr(writer, "CHECKPOINT_EVERY", order.checkpoint_every)  # noqa: B010 - it is Final
    options: dict[str, Any] = {
        "keys": order.keys,
        "max_files": order.max_files,
        "window_bytes": order.window_bytes,
        "on_step": on_step,
    }
    if order.master == "here":
        return _report(run_here(order.lake, order.captures, **options))
    with spark_failures():
        return _report(
            run(
                order.lake,
                order.captures,
                spark=lambda: session("wirelake driver", master=order.master, remote=order.remote),
                stream=order.stream,
                available_now=order.stream,
                **options,
            )
        )


def _report(outcome: Outcome) -> Done:
    return Done(
        commits=outcome.commits,
        refused=[str(each.fault) for each in outcome.refused],
        waiting=[why for _, why in outcome.waiting],
    )


def main(text: str) -> int:
    """Run the lake."""
    order = msgspec.json.decode(text, type=Order)
    left = order.die_after

    def before(step: str) -> None:
        nonlocal left
        print(step, flush=True)
        if step == order.die_at:
            if left == 0:
                os.killpg(os.getpgid(0), signal.SIGKILL)
            left -= 1

    try:
        done: Any = perform(order, before)
    except (LakeError, CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(msgspec.json.encode(done).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
