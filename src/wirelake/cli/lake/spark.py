"""Spark sessions of commands: started on demand, with failures as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import BAD_USAGE, CommandError

if TYPE_CHECKING:
    from wirelake.lake.spark.session import SparkSession

__all__ = ["LazySession", "check_spark", "own_interrupts", "reason", "spark_failures"]

_DEBUG: Final = "set WIRELAKE_DEBUG=1 for the traceback"
_EXTRAS: Final = "cli,lake,java"
_NAMED: Final = re.compile(r"(?:: |Caused by: )?([\w.$]+(?:Error|Exception): .+)")
"""The line of a traceback with the exception; Java puts a prefix before it."""


def check_spark(what: str, hint: str = "") -> None:
    """Fail early if Spark or Java is missing. `hint` names an alternative without Spark."""
    try:
        from wirelake.lake.spark.java import JavaError, find_java
    except ImportError as error:
        from wirelake.wire.messages import missing_dependency

        text = missing_dependency(error.name or "pyspark", _EXTRAS)
        more = f"; {hint}" if hint else ""
        raise CommandError(f"{what}: {text}{more}", BAD_USAGE) from error
    try:
        find_java()
    except JavaError as error:
        raise CommandError(str(error), BAD_USAGE) from error


class LazySession:
    """A Spark session that starts on demand and stops when the context ends."""

    def __init__(
        self, app: str, *, master: str | None, remote: str | None, conf: Mapping[str, str]
    ):
        self._app = app
        self._options: dict[str, Any] = {**conf, "master": master, "remote": remote}
        self._session: SparkSession | None = None

    def __enter__(self) -> LazySession:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.stop()

    def start(self) -> SparkSession:
        """Start the session."""
        from wirelake.lake import session

        try:
            with own_interrupts():
                self._session = session(self._app, **self._options)
        except Exception as error:
            raise CommandError(f"cannot start Spark: {reason(error)}; {_DEBUG}") from error
        return self._session


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep our SIGINT handler: pyspark installs one that calls into the busy JVM and logs pages."""
    import logging
    import signal

    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def spark_failures() -> Iterator[None]:
    """Turn failures of Spark into one line; other errors pass."""
    from wirelake.tables.errors import LakeError

    try:
        yield
    except (CommandError, LakeError, OSError):
        raise
    except Exception as error:
        raise CommandError(f"Spark failed: {reason(error)}; {_DEBUG}") from error


def reason(error: Any) -> str:
    """Return the line of an error that has the cause: the last exception of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [found[1].rstrip(": ") for line in lines if (found := _NAMED.fullmatch(line))]
    return (named or lines or [type(error).__name__])[-1 if named else 0]
