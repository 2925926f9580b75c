"""Paths of local files: the one check that an address of an object store is not taken for one.

`Path("s3a://bucket/lake")` is a valid local path, the folder `s3a:` below the current one. A writer
would create it and report success. So every function that takes a path of a user calls `local_path`
first, until object stores are supported.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["AddressError", "local_path"]

_SCHEME: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/", re.IGNORECASE)
"""With one slash: `hdfs:/data` and `dbfs:/mnt` are addresses as well. A local file of such a name
can be given as `./hdfs:/data`."""


class AddressError(ValueError):
    """An address with a scheme where a local path is expected."""


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a local path; `file:` URLs become paths. Raises AddressError for other schemes."""
    # Not only strings: Path("s3a://bucket") has lost one slash, and is refused all the same.
    text = os.fspath(path)
    match = _SCHEME.match(text)
    if match is None:
        return Path(text)
    # `urlsplit` would cut a path at `?` and `#`, which file names may contain.
    parts = urlsplit(text.replace("?", "%3F").replace("#", "%23"))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    raise AddressError(
        f"{text}: unsupported scheme {match['scheme']!r}; expected a local path, such as the mount"
        " point of the store"
    )
