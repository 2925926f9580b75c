"""`wirelake lake`: one module per subcommand.

- `command`: the group; imports a subcommand on demand.
- `run`, `status`, `sql`, `report`, `verify`, `maintenance` (`compact`, `expire`, `export`).
- `query`: runs the SQL of `sql` in DuckDB or Spark, and writes the rows.
- `spark`: starts Spark on demand and shortens its errors; only `run` and `sql --spark` need it.
"""
