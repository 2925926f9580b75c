"""A small job that exercises everything that reading captures with Spark needs.

    python -m wirelake.lake.doctor.trial

Prints the Spark version and the number of messages that it read, as JSON.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ..spark.session import session
from ..spark.warm import sample_protocol, small_captures

__all__ = ["trial"]


def trial() -> dict[str, Any]:
    """Start Spark, read two captures in a worker, and stop it."""
    with tempfile.TemporaryDirectory(prefix="wirelake-trial-") as folder:
        small_captures(Path(folder))
        spark = session("wirelake trial", cores=1)
        reader = (
            spark.read.format("wirelake")
            .option("force_protocol", sample_protocol())
            .option("columns", "name")
        )
        found = {"spark": spark.version, "messages": len(reader.load(folder).collect())}
        spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(trial()))
