"""Rows in order, however they come and wherever they are held meanwhile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wirelake.cli.output import sorting
from wirelake.cli.output.sorting import RowOrder, sorted_batches, sorted_table

KEYS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(0, 9),
    pa.string(): st.text("ab", max_size=2),
    pa.float64(): st.floats(0, 1),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=1),
}


@st.composite
def given_rows(draw: st.DrawFn) -> list[pa.RecordBatch]:
    kind = draw(st.sampled_from(list(KEYS)))
    batches = draw(st.lists(st.lists(st.none() | KEYS[kind], max_size=12), max_size=8))
    start = 0
    found = []
    for keys in batches:
        places = range(start, start + len(keys))
        start += len(keys)
        whole = [None if n % 3 else {"n": n} for n in places]
        columns = [
            pa.array(keys, kind),
            pa.array(places, pa.int64()),
            pa.array(whole, pa.struct([("n", pa.int64())])),
        ]
        found.append(pa.record_batch(columns, ["key", "place", "struct"]))
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("run_bytes", [1 << 30, 200, 1])
@given(given_rows(), st.booleans(), st.none() | st.integers(0, 30))
def test_every_way_gives_the_order_of_one_sort(
    run_bytes: int, batches: list[pa.RecordBatch], descending: bool, limit: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_RUN_BYTES", run_bytes)
        patch.setattr(sorting, "_BATCH_ROWS", 3)
        patch.setattr(sorting, "_SPARE_ROWS", 2)
        order = RowOrder("key", descending)
        found = [
            row for batch in sorted_batches(batches, order, limit) for row in batch.to_pylist()
        ]
    rows = [row for batch in batches for row in batch.to_pylist()]
    known = [row for row in rows if row["key"] is not None]
    known.sort(key=lambda row: row["key"])
    if descending:
        known.reverse()
        known.sort(key=lambda row: row["key"], reverse=True)
    missing = [row for row in rows if row["key"] is None]
    wanted = (known + missing)[:limit]
    assert [row["key"] for row in found] == [row["key"] for row in wanted]
    # Each row once; those of equal keys may come in the order of the runs.
    if limit is None:
        assert sorted(row["place"] for row in found) == list(range(len(rows)))
    assert all(row in rows for row in found)


def test_equal_rows_stay_as_they_came() -> None:
    rows = pa.table({"key": [2, 1, 2, 1, None, None], "place": range(6)})
    assert sorted_table(rows, RowOrder("key"))["place"].to_pylist() == [1, 3, 0, 2, 4, 5]
    assert sorted_table(rows, RowOrder("key", True))["place"].to_pylist() == [0, 2, 1, 3, 4, 5]


def test_few_rows_are_held_for_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    run = sorting._run

    def watched(batches: list[pa.RecordBatch], *more: Any) -> list[pa.RecordBatch]:
        held.append(sum(each.num_rows for each in batches))
        return run(batches, *more)

    monkeypatch.setattr(sorting, "_run", watched)
    batches = (pa.record_batch({"key": range(n, n + 100)}) for n in range(100_000, 0, -100))
    [found] = sorted_batches(batches, RowOrder("key"), 5)
    assert found["key"].to_pylist() == [100, 101, 102, 103, 104]
    assert max(held) < 1_200
