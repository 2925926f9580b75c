"""Markers: they carry what was said, and nothing else."""

from __future__ import annotations

import pytest

from wirelake.wire import marks, types
from wirelake.wire.marks import Marker
from wirelake.wire.model import Int


def test_every_marker_of_marks_can_be_imported_from_types() -> None:
    missing = set(marks.__all__) - {"Marker"} - set(types.__all__)
    assert not missing


@pytest.mark.parametrize("name", sorted(set(marks.__all__) - {"Marker"}))
def test_a_marker_is_a_marker(name: str) -> None:
    assert issubclass(getattr(marks, name), Marker)


def test_markers_compare_by_value() -> None:
    assert marks.Only("a", "b") == marks.Only("b", "a")
    assert marks.Sizes(0, 4) != marks.Sizes(0, 4, dialect="upstream")
    assert marks.Sizes(0, 4).sizes == (0, 4)


def test_a_type_by_dialect_falls_back_to_its_default() -> None:
    mark = marks.ByDialect(Int(1), {"other": Int(2)})
    assert mark.resolve("other") == Int(2)
    assert mark.resolve("seed") == Int(1)
