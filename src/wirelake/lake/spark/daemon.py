"""The process from which Spark's Python workers fork: it loads once what all of them need.

Spark starts it as a program, with the name of the worker's module as its argument (setting
`spark.python.daemon.module`). There is one for the workers that run tasks, which gets everything,
compiled kernels and pandas included, and one for each kind of short-lived worker that plans a
query, which gets the source alone.

Nothing here may start a thread or write to standard output: threads do not survive a fork, and
Spark reads the number of a port there.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

from pyspark import daemon

__all__ = ["TASKS", "preload"]

TASKS: Final = "pyspark.worker"
"""The module of workers that run tasks."""


def preload(worker: str) -> None:
    """Imports what workers of a module need."""
    importlib.import_module("wirelake.lake.datasource.source")
    if worker == TASKS:
        importlib.import_module("pandas")  # pyarrow would import it with the first conversion
        importlib.import_module("wirelake.lake.spark.warm").warm()
    gc.collect()
    gc.freeze()  # what is loaded stays for good: no worker needs to look through it again


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    daemon.manager()
