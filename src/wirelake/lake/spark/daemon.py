"""The process from which Spark's Python workers fork: loads once what all workers need.

Spark runs it as a program with the worker's module as its argument (`spark.python.daemon.module`).
The daemon of task workers loads everything: with kernels and pandas preloaded the first call of a
worker takes 0.01 s, with kernels alone 0.3 s, without either 0.85 s. Other daemons serve the
short-lived workers that plan a query, and load only the data source.

Do not start a thread here or write to standard output: threads do not survive a fork, and Spark
reads a port number from standard output.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

from pyspark import daemon

__all__ = ["TASKS", "preload"]

TASKS: Final = "pyspark.worker"
"""The module of task workers."""


def preload(worker: str) -> None:
    """Import what the workers of a module need."""
    importlib.import_module("wirelake.lake.datasource.source")
    # Workers that plan a query are short-lived: loading kernels for them costs more than it saves.
    # They are recognised by the module that Spark passes as the argument.
    if worker == TASKS:
        importlib.import_module("pandas")  # pyarrow imports it with the first conversion: 0.3 s
        importlib.import_module("wirelake.columnar.read.warm").warm()
    # Workers are forks that share these pages. A collection would write to the header of every
    # object, and so copy them into each worker; frozen objects are left out of collections.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    daemon.manager()
