"""What commands print and write.

- `text`: numbers, times, JSON lines and notices; escapes text from peers.
- `tree`: the fields of a message with their bytes.
- `table`: a text table that fits the terminal.
- `formats`, `values`, `writers`: rows as JSON, CSV, Parquet or Arrow.
- `progress`: progress bars on a terminal.

`values` and `writers` import pyarrow; the others are light enough for `--help`.
"""
