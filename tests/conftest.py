"""What every test shares: a codec cache of its own, how hard Hypothesis tries, and who goes first.

`WIRELAKE_PROFILE=soak` runs the properties with many more examples; `ci`, the default, keeps
them inside the time of `make test`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile(
    "ci",
    max_examples=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", parent=settings.get_profile("ci"), max_examples=2_000)
settings.load_profile(os.environ.get("WIRELAKE_PROFILE", "ci"))

_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Spark that lives for seconds, compiling its code well takes longer than running it."""
_FOLDER = pytest.StashKey[Path]()
_LONG = ("lake", "demo", "docs", "tables", "hub_kills", "adversity", "release", "browser", "hub")
"""Folders whose files take long. They go first, so that no process is left alone with one."""


def pytest_configure(config: pytest.Config) -> None:
    """Codecs of layouts that tests declare go to a folder of this run, not to the user's, and Java
    starts quickly."""
    folder = Path(tempfile.mkdtemp(prefix="wirelake-tests-"))
    config.stash[_FOLDER] = folder
    os.environ["WIRELAKE_CACHE"] = str(folder)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ.setdefault(name, _LIGHT_JAVA)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove that folder, and end the Spark session that tests shared."""
    if "pyspark" in sys.modules:
        from tests import spark_sessions

        spark_sessions.stop()
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The Spark session that all tests of this process share."""
    from tests import spark_sessions

    return spark_sessions.local()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long ones first; otherwise the order stays."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(here).parts[0]
        return _LONG.index(folder) if folder in _LONG else len(_LONG)

    items.sort(key=place)
