"""The lake of the demo: follows the hub's recordings in a thread, on a Spark of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import CommandError
from ..lake.run import STEP_TEXTS
from ..lake.spark import reason, spark_failures

if TYPE_CHECKING:
    from wirelake.lake.engine.run import Committed
    from wirelake.lake.spark.session import SparkSession

__all__ = ["FollowingLake"]

_TRIGGER_S: Final = 1.0
"""How often the stream looks for recordings."""
_MASTER: Final = "local[2,4]"
_DEBUG: Final = "WIRELAKE_DEBUG=1 shows everything"


class FollowingLake:
    """A lake that is taken forward while recordings are written.

    `ready_when` is called once Spark is there, and returns when workers may start. What Spark
    leaves behind goes to `scratch`.
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
        """Why it ended before it should."""
        self.commit: int | None = None
        """The last commit."""
        self.rows = 0
        """Rows of all tables, but for provisional ones."""
        self.refused: list[str] = []
        """Recordings that could not be read, and why."""
        self._newest_ns = 0
        self._doing = ""

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def finish(self) -> None:
        """Lets it end when it has all recordings that are sealed."""
        self._finishing.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    @property
    def has_all(self) -> bool:
        """Whether everything that is sealed is in."""
        from wirelake.capture.format.output import sealed_files

        return {each.name for each in sealed_files(self._recordings)} <= self._taken

    def words(self) -> str:
        """How far it is, and what it does."""
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

        from wirelake.tables.errors import LakeError

        try:
            with spark_failures():
                self._run(start)
        except LakeError as error:
            self.error = CommandError(str(error))
        except Exception as error:
            self.error = error
        finally:
            with suppress(Exception):  # it may be gone
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
            raise CommandError(f"Spark does not start: {reason(error)}; {_DEBUG}") from error

    def _warm_up(self, spark: SparkSession) -> None:
        """Reads a tiny capture: workers start, so that the first recording does not wait for it."""
        from wirelake.lake.spark.warm import small_captures

        folder = self._scratch / "warm-up"
        folder.mkdir()
        small_captures(folder)
        reader = (
            spark.read.format("wirelake")
            .option("force_protocol", "comet")
            .option("columns", "name")
        )
        reader.load(str(folder)).collect()

    def _conf(self) -> dict[str, Any]:
        """What Spark writes beside tables is rubbish afterwards: all of it goes to one folder."""
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
