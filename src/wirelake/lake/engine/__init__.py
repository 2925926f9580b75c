"""The engine of a lake: captures to committed tables, step by step.

Read `run.py` (a run over a folder) and `engine.py` (one step), then its stages in order:
`decoding.py` (each source), `tunnels.py` (tunnels over all sources), `cross_connection.py`
(deliveries and previous connections), `rollups.py`. All stages are tasks that workers run
(`tasks.py`): processes of this machine, or those of Spark (`spark_workers.py`), which distributes
and repeats them; no row passes through its JVM. `step.py` has
the files of a step and what a task writes, `watermarks.py` how far sources have been read,
`streaming.py` how a stream drives a run, and `settings.py` what a lake never changes.

The matching rules are those of `wirelake.columnar.fold`; here is only when they are applied, and
what is kept for the next step. The log and the commits are `wirelake.tables`.
"""
