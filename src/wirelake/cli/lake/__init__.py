"""`wirelake lake`: one module per subcommand.

- `command`: the group; imports a subcommand on demand, and reports errors of lakes in one line.
- `run`: updates a lake. It also has what starts Spark on demand and shortens its errors, which
  `sql --spark` and the demo use.
- `status`, `report`, `verify`, `maintenance` (`compact`, `expire`, `export`).
- `sql`, `query`: the options of `sql`; and the query in DuckDB or Spark, with its rows.

Only `query` imports pyarrow when it is loaded.
"""
