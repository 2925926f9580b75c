"""The lake of the demo: follows the hub's recordings in a thread, with its own Spark session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import CommandError
from ..lake.run import STEP_TEXTS, reason, spark_failures

if TYPE_CHECKING:
    from wirelake.lake.engine.run import Committed
    from wirelake.lake.spark.session import SparkSession

__all__ = ["FollowingLake"]

_TRIGGER_S: Final = 1.0
"""Interval at which the stream looks for recordings."""
_MASTER: Final = "local[2,4]"
_DEBUG: Final = "set WIRELAKE_DEBUG=1 for details"


class FollowingLake:
    """A lake that is updated while recordings are written.

    `ready_when` is called when Spark has started, and returns when workers may start. Temporary
    files of Spark go to `scratch`.
    """

    def __init__(
        self,
        lake: Path,
        recordings: Path,
        scratch: Path,
        ports: dict[int, str] | None,
        ready_when: Callable[[], object],
    ):
        self._lake = lake
        self._recordings = recordings
        self._scratch = scratch
        self._ports = ports
        self._ready_when = ready_when
        self._finishing = threading.Event()
        self._taken: set[str] = set()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.is_ready = threading.Event()
        """Set when it waits for recordings."""
        self.error: Exception | None = None
        """Why it failed."""
        self.commit: int | None = None
        """The last commit."""
        self.rows = 0
        """Rows of all tables, without provisional ones."""
        self.refused: list[str] = []
        """Recordings that could not be read, and why."""
        self._newest_ns = 0
        self._doing = ""

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def finish(self) -> None:
        """Let it end when it has all complete recordings."""
        self._finishing.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    @property
    def has_all(self) -> bool:
        """Whether it has all complete recordings."""
        from wirelake.capture.format.writer import sealed_files

        return {each.name for each in sealed_files(self._recordings)} <= self._taken

    def status(self) -> str:
        """Return its progress."""
        if self.commit is None:
            return self._doing or "looking for recordings"
        behind_s = max(0.0, time.time() - self._newest_ns / 1e9)
        doing = f"; {self._doing}" if self._doing else ""
        return f"commit {self.commit}, {self.rows:,} rows, {behind_s:.1f} s behind{doing}"

    def _follow(self) -> None:
        session: list[SparkSession] = []

        def start() -> SparkSession:
            session.append(self._started())
            self._ready_when()
            self._warm_up(session[0])
            self.is_ready.set()
            return session[0]

        from wirelake.tables.paths import LakeError

        try:
            with spark_failures():
                self._run(start)
        except LakeError as error:
            self.error = CommandError(str(error))
        except Exception as error:
            self.error = error
        finally:
            with suppress(Exception):  # it may have ended
                for each in session:
                    each.stop()

    def _run(self, start: Callable[[], SparkSession]) -> None:
        from wirelake.lake.engine.run import run
        from wirelake.lake.engine.settings import Settings

        run(
            self._lake,
            self._recordings,
            spark=start,
            settings=Settings(ports=self._ports),
            stream=True,
            trigger_s=_TRIGGER_S,
            committed=self._committed,
            on_step=self._step,
            until=lambda: self._finishing.is_set() and self.has_all,
        )

    def _started(self) -> SparkSession:
        from wirelake.lake import session

        try:
            return session("wirelake demo", master=_MASTER, **self._conf())
        except Exception as error:
            raise CommandError(f"cannot start Spark: {reason(error)}; {_DEBUG}") from error

    def _warm_up(self, spark: SparkSession) -> None:
        """Read a tiny capture, which starts the workers before the first recording."""
        # The first Python job of a session took 2.8 s in measurements, and the first JVM job 4.5 s:
        # better before the traffic starts than while recordings pile up.
        from wirelake.columnar.read.warm import sample_protocol, small_captures

        folder = self._scratch / "warm-up"
        folder.mkdir()
        small_captures(folder)
        reader = (
            spark.read.format("wirelake")
            .option("force_protocol", sample_protocol())
            .option("columns", "name")
        )
        reader.load(str(folder)).collect()

    def _conf(self) -> dict[str, Any]:
        """Return options that put all temporary files of Spark in one folder."""
        from wirelake.lake.spark.session import settings

        options = "spark.driver.extraJavaOptions"
        return {
            "spark.local.dir": str(self._scratch),
            "spark.sql.warehouse.dir": (self._scratch / "warehouse").as_uri(),
            options: f'{settings(_MASTER)[options]} -XX:-UsePerfData "-Djava.io.tmpdir='
            f'{self._scratch}"',
        }

    def _step(self, name: str) -> None:
        self._doing = STEP_TEXTS.get(name, "committing")

    def _committed(self, found: Committed) -> None:
        record = found.record
        self._doing = ""
        self.commit = record.commit
        self.rows += sum(record.figures.get("rows", {}).values())
        self.refused += [f"{each.name}: {each.fault}" for each in record.inputs if each.fault]
        self._newest_ns = max(self._newest_ns, *(each.mtime_ns for each in record.inputs), 0)
        self._taken.update(each.name for each in record.inputs)
