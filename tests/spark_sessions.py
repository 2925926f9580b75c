"""Spark sessions of the tests: one for each worker process, kept until another kind is asked for.

A JVM takes seconds to start, and the Python daemon of a new session loads all kernels again, so
tests share one local session. A process can have only one kind of session at a time: asking for
executors ends the local session, and the next test that asks for it starts a new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from wirelake.lake import session

__all__ = ["executors", "local", "stop"]


def local() -> SparkSession:
    """The shared session on two cores of this process."""
    return session("wirelake tests")


def stop() -> None:
    """End the session of this process, if there is one."""
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


@contextmanager
def executors() -> Iterator[SparkSession]:
    """A session with two executors in processes of their own; their folders are removed."""
    stop()
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.glob("*"))
    light = {"spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"]}
    found = session("wirelake cluster", master="local-cluster[2,1,1024]", **light)
    try:
        yield found
    finally:
        found.stop()
        for each in set(work.glob("*")) - before:
            shutil.rmtree(each, ignore_errors=True)
