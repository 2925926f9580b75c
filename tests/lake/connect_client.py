"""What a client of Spark Connect does in the test, as a program of its own.

    python connect_client.py ADDRESS CAPTURES WORK

A process has sessions of one kind: those of Connect do not mix with those of other tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from wirelake.lake import session
from wirelake.lake.engine.streaming import follow

COLUMNS = ("file", "offset", "connection", "name")
NO_WAIT = {"settle": "0", "lateness": "0"}


def main(address: str, captures: str, work: Path) -> dict[str, Any]:
    """Read captures in every way; print the results."""
    spark = session("wirelake connect", remote=address)
    options = {"columns": ",".join(COLUMNS)}
    batch = spark.read.format("wirelake").options(**options).load(captures).collect()
    calls = spark.read.format("wirelake").option("table", "calls").load(captures).count()
    names = spark.read.format("wirelake").options(**options).load(captures)
    reader = spark.readStream.format("wirelake").options(**options, **NO_WAIT)
    writer = reader.load(captures).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(work / "rows"))
    query.awaitTermination()
    steps: list[Any] = []
    follow(spark, captures, steps.append, available_now=True, max_files=2, **NO_WAIT)
    found = {
        "batch": sorted(map(list, batch)),
        "calls": calls,
        "auths": names.where("name = 'auth'").count(),
        "stream": sorted(map(list, spark.read.parquet(str(work / "rows")).collect())),
        "steps": steps,
        "zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
