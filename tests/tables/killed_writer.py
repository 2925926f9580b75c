"""Makes a commit and kills itself on the way: a program that tests start.

    python -m tables.killed_writer LAKE STEP

It commits twice: first calls 0 to 9, which no commit of a lake that has them repeats; then it takes
those away and adds others to two tables, and dies before the step of that name.
"""

from __future__ import annotations

import os
import signal
import sys

from wirelake.tables.writer import Writer

from .made_lakes import add_rows, call, capture, commit_calls


def main(lake: str, deadly: str) -> None:
    """Writes to the lake until the step."""

    def before(step: str) -> None:
        if step == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    with Writer(lake, create={"ports": {}}) as writer:
        if writer.snapshot.commit == 0:
            commit_calls(writer, range(10))
        (old,) = writer.snapshot.files("calls")
        step = writer.begin()
        before("work")
        add_rows(step, "calls", [call(each) for each in range(100, 120)])
        add_rows(step, "connections", [{"connection": 7, "first_ns": 1, "last_ns": 2}])
        step.remove(old.path)
        step.consume(capture(1))
        step.commit("advance", on_step=before)


if __name__ == "__main__":
    main(*sys.argv[1:])
