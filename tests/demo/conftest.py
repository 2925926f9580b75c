"""How the tests of the demo run the command in this process."""

from __future__ import annotations

from tests.cli.conftest import run

__all__ = ["run"]
