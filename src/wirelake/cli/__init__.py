"""The command `wirelake`.

Read it in this order:

- `main`: the list of commands; answers `--help` and `--version` without importing click.
- `app`: finds, imports and runs a command, and turns every error into one line and an exit code.
- `errors`: `CommandError` and the exit codes.
- `commands`: one module per command. Commands with more than one module have a package:
  `decode`, `read`, `lake`, `top`, `demo`.
- `options`: settings, option groups and option types that commands share.
- `connect`: how commands connect to a server, and to the admin API of a hub.
- `output`: text, JSON, tables, row formats and progress bars.

Any package may be imported here, but only inside functions: `wirelake COMMAND --help` must not load
pyarrow, numba or Spark. click and rich are imported nowhere else.
"""
