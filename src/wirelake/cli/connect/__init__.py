"""Connections of commands.

- `client`: connects as a client over one of the protocols (`call`, `publish`, `subscribe`, `ping`).
- `admin`: requests to the admin API of a hub over HTTP (`top`, `tail`).
"""
