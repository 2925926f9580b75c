"""`python -m wirelake.lake.spark.warm`: prepares a machine for Spark.

It compiles the kernels into the cache. With `--classes` it also writes an archive of Java classes,
with which Spark starts in half the time (`class_archive.py`).
"""

from __future__ import annotations

import sys

from wirelake.columnar.read.warm import compile_kernels

from .class_archive import ArchiveError, create_archive

if __name__ == "__main__":
    compile_kernels()
    if "--classes" in sys.argv[1:]:
        try:
            create_archive()
        except ArchiveError as failure:
            sys.exit(f"cannot write the class archive of Java: {failure}")
