"""One module per command; its attribute `command` is the click command.

Offline: `protocols`, `encode`, `conform`, `dissector`, `capture`, `follow`, `simulate`, `doctor`.
Server: `hub`, `client`, `tail`. Client: `call`, `publish`, `subscribe`, `ping`.

A module imports the package that does the work inside its functions, so that `--help` is fast.
"""
