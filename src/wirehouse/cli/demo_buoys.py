"""A capture of the example protocol `weather`, for the demo: a harbour hears from its buoys.

No file of Wirehouse knows this protocol; it comes from a package, `examples/weather`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from .demo_figures import Figures, Section, Truth

if TYPE_CHECKING:
    from wirehouse.lake.session import SparkSession
    from wirehouse.wire.protocol import Protocol

__all__ = ["SECTION", "is_installed", "make_view", "record_buoys"]

_NAMES: Final = ("Old Tom", "Santa Rosa", "Windward")
_REPORTS: Final = 8
_START_NS: Final = 1_767_225_600_000_000_000
_MINUTE_NS: Final = 60_000_000_000


def is_installed() -> bool:
    """Whether the example package is there; `make setup` installs it."""
    from wirehouse.protocols import registry

    return "weather" in registry.names()


def record_buoys(folder: Path) -> None:
    """Records a morning at the harbour into a folder."""
    from wirehouse.capture.recorder import Recorder
    from wirehouse.protocols import registry

    weather = registry.find("weather")
    recorder = Recorder(folder, source="harbour", rotate_s=86_400)
    for number, name in enumerate(_NAMES, 1):
        now = _START_NS + number
        client, server = (f"10.9.0.{number}", 50_000 + number), ("10.9.0.200", weather.port or 0)
        recorder.open(number, client, server, "weather", now)
        for minute, frame in enumerate(_frames(weather, number, name)):
            recorder.record(number, "c2s", frame, now + minute * _MINUTE_NS)
        recorder.close(number, now + 60 * _MINUTE_NS, "eof")
    recorder.stop()


def make_view(spark: SparkSession, folder: Path) -> None:
    """Makes what was recorded known to Spark's SQL."""
    reader = spark.read.format("wirehouse").option("protocol", "weather")
    reader.load(str(folder)).createOrReplaceTempView("buoys")


def _frames(weather: Protocol, number: int, name: str) -> list[bytes]:
    """What one buoy says."""
    layouts = {layout.name: layout.cls for layout in weather.layouts()}
    found = [weather.encode(layouts["hello"](name=name, key=b"ahoy"))]
    for minute in range(_REPORTS):
        report = layouts["report"](
            sky=1 + (number + minute) % 5,
            battery=15 - minute,
            air=_air(number, minute),
            gusts=(300 + 10 * minute, 450),
            wave=_wave(number, minute),
        )
        found.append(weather.encode(report))
    return found


def _air(number: int, minute: int) -> int:
    return 100 * number - 25 * minute


def _wave(number: int, minute: int) -> float:
    return 0.5 * number + 0.25 * minute


def _recorded(_: Truth) -> Figures:
    """It gets colder, and the waves get higher: the last report has the extremes."""
    last = _REPORTS - 1
    return {
        (name,): (_REPORTS, _air(number, last) / 100, _wave(number, last))
        for number, name in enumerate(_NAMES, 1)
    }


SECTION: Final = Section(
    "weather: a protocol of one's own",
    """
    SELECT name, count(report), min(report.air) / 100, max(report.wave) FROM (
        SELECT weather.report AS report,
               first_value(weather.hello.name) IGNORE NULLS
                   OVER (PARTITION BY connection ORDER BY ts_ns) AS name
        FROM buoys WHERE direction = 'c2s'
    ) GROUP BY name
    """,
    ("buoy",),
    ("reports", "coldest_air", "highest_wave"),
    _recorded,
)
"""What there is to see of them."""
