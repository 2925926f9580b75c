"""A capture of the example protocol `weather`.

No file of Wirelake knows this protocol; it comes from a package, `examples/weather`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wirelake.capture.record.recorder import Recorder
from wirelake.protocols import registry
from wirelake.wire.protocol import Protocol

__all__ = ["record_buoys"]

_NAMES: Final = ("Old Tom", "Santa Rosa", "Windward")
_REPORTS: Final = 8
_START_NS: Final = 1_767_225_600_000_000_000
_MINUTE_NS: Final = 60_000_000_000


def record_buoys(folder: Path) -> None:
    """Record traffic of some buoys into a folder."""
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


def _frames(weather: Protocol, number: int, name: str) -> list[bytes]:
    """Return the frames of one buoy."""
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
