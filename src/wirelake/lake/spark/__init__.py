"""Spark itself: sessions, Java, workers, and DataFrames over a lake.

- `session`: starts a session; `java` finds its Java, `class_archive` halves its start.
- `daemon`, `warm`: the process from which workers fork, and what it loads before.
- `dataframes`: files and schemas of a lake in Spark; views and functions for SQL.

`session` imports neither pyspark nor numba before a session is started. This package does not
import `wirelake.lake.engine`.
"""
