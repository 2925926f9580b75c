"""Commands with one module. The module of a command has its name, unless `cli/main.py` says else.

- Offline: `protocols` (also `dissector`, `conform`), `encode`, `capture`, `follow`, `simulate`,
  `doctor`.
- Server: `hub`, `client`, `tail`.
- Client: `call` (also `ping`), `pubsub` (`publish`, `subscribe`).

A module imports the package that does the work inside its functions, so that `--help` is fast.
"""
