"""How kernels run in a command that reads captures: decided before they are imported.

At first use nothing is compiled. A small capture is read with interpreted kernels, while another
process compiles them; a large one waits for the compiler, because interpreted kernels read some
150 kB/s and compiled ones more than 50 MB/s.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from wirelake.capture.live.inputs import is_live
from wirelake.columnar.jit import mode

from ..output.text import print_notice, spinner

__all__ = ["SMALL_BYTES", "are_ready", "prepare_kernels"]

SMALL_BYTES: Final = 300_000
"""Captures up to this size are read with interpreted kernels, which takes two seconds more."""
_EXPANSION: Final = 8
"""What a compressed capture is assumed to expand to."""
_COMPILE: Final = ("-m", "wirelake.columnar.read.warm")


def are_ready() -> bool:
    """Return whether nothing needs to be compiled, or the user has chosen."""
    return os.environ.get(mode.VARIABLE) in ("compiled", "interpreted") or mode.is_ready()


def prepare_kernels(files: Sequence[str], *, live: bool = False) -> None:
    """Choose between compiled and interpreted kernels for these captures.

    `live` inputs may have any size: interpreted kernels would lose packets.
    """
    if are_ready():
        return
    for file in files:
        _check(file)
    if live or sum(map(_size, files)) > SMALL_BYTES:
        print_notice("first use: compiling the kernels, which takes about a minute")
        with spinner("compiling"):
            # If it fails, this process compiles them, and reports what is wrong.
            subprocess.run([sys.executable, *_COMPILE], check=False, stderr=subprocess.DEVNULL)
    elif mode.interpret():
        print_notice("first use: compiling the kernels in the background, for larger captures")
        subprocess.Popen(
            [sys.executable, *_COMPILE, "--background"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _check(file: str) -> None:
    """Raise OSError for a file that cannot be read: it is known before a minute of compiling."""
    if not is_live(file):
        with open(file, "rb"):
            pass


def _size(file: str) -> int:
    found = os.stat(file).st_size
    return found * _EXPANSION if file.endswith((".gz", ".zst")) else found
