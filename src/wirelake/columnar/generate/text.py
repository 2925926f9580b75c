"""Lines of a kernel: indentation, unsigned constants, and the way out of a slice that is not good.

Positions and values are unsigned 64-bit numbers throughout. A literal in Python is signed, and
mixing the two costs a test for negative indices, so constants are module-level names (`_12`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wirelake.wire.generate.code import Code

__all__ = ["KernelCode"]


class KernelCode(Code):
    """A kernel under construction."""

    def __init__(self, indent: int = 0) -> None:
        super().__init__(indent)
        self.constants: set[int] = set()
        self._loops = 0
        self._names = 0

    def number(self, value: int) -> str:
        """The name of an unsigned constant."""
        self.constants.add(value)
        return f"_{value}"

    def plus(self, name: str, value: int) -> str:
        """`name + value`, or the name alone."""
        return f"{name} + {self.number(value)}" if value else name

    def fresh(self, stem: str) -> str:
        """A variable that nothing else uses."""
        self._names += 1
        return f"{stem}_{self._names}"

    def give_up(self) -> None:
        """Leaves the slice: it is not good, or not what kernels are for."""
        if self._loops:
            self("failed = True")
        self("break")

    def give_up_if(self, test: str) -> None:
        """Leaves the slice when a test holds."""
        with self.block(f"if {test}:"):
            self.give_up()

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """A loop inside a slice; giving up inside it leaves the slice as well."""
        with self.block(head):
            self._loops += 1
            yield
            self._loops -= 1
        self.give_up_if("failed")
