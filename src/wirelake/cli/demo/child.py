"""Runs a module that ends with whoever started it: `python -m wirelake.cli.demo.child MODULE ...`.

Standard input is a pipe whose other end the starter holds. When that end is closed, because the
starter wants it or because it is no more, the module is ended as by SIGTERM.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Sequence
from threading import Thread

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """Runs the module that the first argument names, with the others as its arguments."""
    Thread(target=_end_with_starter, daemon=True).start()
    sys.argv = list(arguments)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    # Not sys.stdin: a reader that waits holds its lock, and the interpreter could not end.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1:])
