"""The engine of a lake: captures to committed tables, step by step.

Read `run.py` (a run over a folder) and `engine.py` (one step), then its stages in order:
`decoding.py` (each source, in workers), `tunnels.py` (tunnels over all sources, in workers),
`cross_connection.py` (deliveries and previous connections, in the JVM), `rollups.py`. `step.py` has
the files of a step, `outputs.py` what a task writes, `tasks.py` how tasks run in workers,
`watermarks.py` how far sources have been read, `streaming.py` how a stream drives a run, and
`settings.py` what a lake never changes.

The matching rules are those of `wirelake.columnar.fold`; only their merge across connections is
here. The log and the commits are `wirelake.tables`.
"""
