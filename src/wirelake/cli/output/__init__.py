"""What commands print and write.

- `text`: values, JSON lines, notices, tables and progress bars; escapes text from peers.
- `sources`: notices about captures.
- `tree`: the fields of a message with their bytes.
- `rows`: rows of Arrow batches as JSON, CSV, Parquet or Arrow.

Only `rows` imports pyarrow; the others are light enough for `--help`.
"""
