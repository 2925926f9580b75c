"""Commands with one module. The module of a command has its name, unless `cli/main.py` names
another one.

- Offline: `protocols` (also `dissector`, `conform`), `encode`, `capture`, `follow`, `simulate`,
  `doctor`.
- Server: `hub`, `accounts` (`client`, `user`), `tail`.
- Client: `call` (also `ping`), `pubsub` (`publish`, `subscribe`), `context`.

A module imports the package that does the work inside its functions, so that `--help` is fast.
"""
