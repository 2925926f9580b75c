"""`wirelake lake verify`: compare a lake with a replay of its captures.

The matching rules (`docs/concepts/matching.md`) have two implementations. A lake is made by
`wirelake.columnar.fold` and, where connections meet, by `wirelake.lake.engine`. Here the other one
decides what the rows should be: the reference reader (`wirelake.capture.decode`) feeds the engines
of `wirelake.records`, event by event. No Spark and no SQL.

Read `verify.py` (the entry), `selection.py` (what is replayed), `replay.py` (one source, in a
worker process), `merge.py` (what crosses connections), `rows.py` (rows of the lake, and how they
are compared), `report.py`.

Not imported here: pyspark, `wirelake.columnar.fold`, and of `wirelake.lake.engine` only the
settings.
"""
