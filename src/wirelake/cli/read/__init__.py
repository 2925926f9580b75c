"""`wirelake read`: captures as tables.

- `command`: the options.
- `run`: reads the captures and writes the rows; imports pyarrow and the columnar reader.
- `table_view`: the text table on a terminal.
"""
