"""`wirelake lake verify`: compare a lake with a replay of its captures.

The matching rules (`docs/concepts/matching.md`) have two implementations. A lake is made by
`wirelake.columnar.fold` and, where connections meet, by `wirelake.lake.engine`. Here the other one
decides what the rows should be: the reference reader (`wirelake.capture.decode`) feeds the engines
of `wirelake.records`, event by event. No Spark and no SQL.

- `verify`: the entry; roll-ups, and the work of the processes.
- `replay`: what is in a sample, and one source, replayed in a worker process.
- `merge`: what crosses connections.
- `rows`: the report, rows of the lake, and how rows are compared.

This package does not import pyspark or `wirelake.columnar.fold`, and of `wirelake.lake.engine`
only the settings.
"""
