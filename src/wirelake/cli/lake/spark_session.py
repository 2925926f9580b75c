"""How commands start Spark, and how they say what went wrong with it: in one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import BAD_USAGE, CommandError

if TYPE_CHECKING:
    from wirelake.lake.spark.session import SparkSession

__all__ = ["Sparks", "check_spark", "own_interrupts", "reason", "spark_failures"]

_DEBUG: Final = "WIRELAKE_DEBUG=1 shows everything"
_INSTALL: Final = "pip install 'wirelake[cli,lake,java]'"
_NAMED: Final = re.compile(r"(?:: |Caused by: )?([\w.$]+(?:Error|Exception): .+)")
"""A line of a traceback that says what happened; Java has words before it."""


def check_spark(what: str, hint: str = "") -> None:
    """Fails before anything slow is done. The hint is what needs no Spark."""
    try:
        from wirelake.lake.spark.java import JavaError, find_java
    except ImportError as error:
        more = f"; {hint}" if hint else ""
        raise CommandError(f"{what} needs {error.name}: {_INSTALL}{more}", BAD_USAGE) from error
    try:
        find_java()
    except JavaError as error:
        raise CommandError(str(error), BAD_USAGE) from error


class Sparks:
    """A session that is started when it is wanted, and stopped at the end if it was."""

    def __init__(
        self, app: str, *, master: str | None, remote: str | None, conf: Mapping[str, str]
    ):
        self._app = app
        self._options: dict[str, Any] = {**conf, "master": master, "remote": remote}
        self._session: SparkSession | None = None

    def __enter__(self) -> Sparks:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.stop()

    def start(self) -> SparkSession:
        """The session."""
        from wirelake.lake import session

        try:
            with own_interrupts():
                self._session = session(self._app, **self._options)
        except Exception as error:
            raise CommandError(f"Spark does not start: {reason(error)}; {_DEBUG}") from error
        return self._session


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Spark's answer to Ctrl-C talks to a JVM that is busy, and logs pages about it."""
    import logging
    import signal

    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def spark_failures() -> Iterator[None]:
    """Failures of Spark are one line; what a command, a lake or the disk says stays."""
    from wirelake.tables.errors import LakeError

    try:
        yield
    except (CommandError, LakeError, OSError):
        raise
    except Exception as error:
        raise CommandError(f"Spark failed: {reason(error)}; {_DEBUG}") from error


def reason(error: Any) -> str:
    """The line of an error that says why: of a traceback, of Python or of Java, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [found[1].rstrip(": ") for line in lines if (found := _NAMED.fullmatch(line))]
    return (named or lines or [type(error).__name__])[-1 if named else 0]
