"""The Spark data source `wirelake`: batch and streaming readers of captures.

Read `source.py` (what Spark calls) and `options.py` first, then `paths.py` (which captures),
`reading.py` (tasks and their rows), `pruning.py` and `pushdown.py` (what need not be read),
`stream.py` with `offsets.py` (captures as they arrive), `files.py` (the table `files`).

Decoding is `wirelake.columnar.read`. Not imported here: `wirelake.lake.engine`.
"""
