"""The files of a lake: its log and commits, and reading it without Spark (`docs/concepts/lake.md`).

with Writer("lake") as writer: ...        writer.py: one commit after the other
Log("lake").snapshot()                    log.py: which files count
open_lake("lake").sql("from calls")       query.py: the tables in DuckDB
"""
