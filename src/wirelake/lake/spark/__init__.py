"""Spark itself: sessions, Java, workers, and DataFrames over a lake.

`session.py` starts a session; `java.py` finds its Java; `daemon.py` and `warm.py` preload workers;
`dataframes.py` maps files and schemas to Spark; `views.py` creates tables and functions for SQL.

Not imported here: `wirelake.lake.engine`.
"""
