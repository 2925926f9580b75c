"""The tables of a lake on disk: log, commits, and reading without Spark (`docs/concepts/lake.md`).

    with Writer("lake") as writer: ...        # writer: one commit after another
    Log("lake").snapshot()                    # log: the files of the last commit
    open_lake("lake").sql("from calls")       # query: the tables in DuckDB

Read it in this order:

- `paths`, `snapshot`, `log`: the folder of a lake and its errors, the records of the log and the
  state at a commit, the log itself.
- `cleanup`, `writer`: how a commit is made, and what happens after a kill.
- `names`, `inputs`: the source and the order of captures, and which are read next.
- `parquet`, `query`: files to rows, as Arrow batches and in DuckDB.
- `status`, `check`: reports about a lake. `maintenance`: compaction and expiry.
- `report`: traffic, latency and errors. `export`: Delta Lake and Iceberg.

It may import `capture` (section headers of recordings), `records` (schemas) and what is below, but
neither Spark nor `columnar`.
"""
