"""The command `wirelake`.

Read it in this order:

- `main`: the list of commands; answers `--help` and `--version` without importing click.
- `app`: finds, imports and runs a command, and turns every error into one line and an exit code.
- `errors`: `CommandError` and the exit codes.
- `options`: settings, option groups and option types that commands share.
- `connect`: how commands connect to a server, and to the admin API of a hub.
- `output`: text, JSON, tables, rows and progress bars.
- `commands`: the commands with one module. Those with more have a package: `decode`, `read`,
  `lake`, `top`, `demo`.

Any package may be imported here, but only inside functions: `wirelake COMMAND --help` must not load
pyarrow, numba or Spark. click and rich are imported nowhere else.
"""
