"""What every test shares: a cache of generated code, how hard Hypothesis tries, who goes first.

`WIRELAKE_PROFILE=soak` runs the properties with many more examples and `check` with few; `ci`, the
default, keeps them inside the time of `make test`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

settings.register_profile(
    "ci",
    max_examples=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("check", parent=settings.get_profile("ci"), max_examples=10)
settings.register_profile("soak", parent=settings.get_profile("ci"), max_examples=2_000)
_PROFILE = os.environ.get("WIRELAKE_PROFILE", "ci")
settings.load_profile(_PROFILE)

_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Spark that lives for seconds, compiling its code well takes longer than running it."""
_CACHE = Path(__file__).parents[1] / ".cache" / "wirelake"
"""Generated codecs and kernels, and the class archive of Spark's JVM; `make warm` fills it. Its
files are named by a hash of what they are made from, so they serve the next run as well."""
_SLOW = (
    *("lake", "demo", "docs", "release", "benchmarks", "examples", "hub_kills", "adversity"),
    *("browser", "interop", "deploy", "traffic_live", "live", "machines", "fuzz", "hub_raw"),
)
"""Folders with Spark, browsers, tshark, pages or many processes. They go first, so that no process
is left alone with one of their files."""
collect_ignore = list(_SLOW) if _PROFILE == "check" else []
"""For `make check` their files are not even imported."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--store`: which store the hubs of tests use."""
    parser.addoption(
        "--store",
        choices=("sqlite", "postgres"),
        default=os.environ.get("WIRELAKE_TEST_STORE"),
        help="run hubs on this store alone (tests/hub/stores.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Use the cache of the checkout instead of the user's, and a Java that starts quickly."""
    if config.getoption("--store"):  # also for fixtures of modules
        os.environ["WIRELAKE_TEST_STORE"] = config.getoption("--store")
    os.environ["WIRELAKE_CACHE"] = str(_CACHE)
    # Tests that use another cache share the kernels.
    os.environ["NUMBA_CACHE_DIR"] = str(_CACHE / "kernels")
    os.environ.setdefault("WIRELAKE_KERNELS", "compiled")
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
        os.environ.setdefault(name, _LIGHT_JAVA)


def pytest_unconfigure() -> None:
    """End the Spark session and the PostgreSQL server that tests shared."""
    if "pyspark" in sys.modules:
        from tests import spark_sessions

        spark_sessions.stop()
    if "tests.postgres_server" in sys.modules:
        from tests import postgres_server

        postgres_server.stop_shared()


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The Spark session that all tests of this process share."""
    from tests import spark_sessions

    return spark_sessions.local()


@pytest.fixture(autouse=True)
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The store that hubs of this test use: `sqlite` or `postgres`."""
    name = getattr(request, "param", None) or request.config.getoption("--store") or "sqlite"
    only = request.node.get_closest_marker("sqlite_only")
    if name == "postgres" and only is not None:
        pytest.skip(f"for SQLite only: {only.args[0]}")
    if name == "sqlite" and "tests.hub.stores" not in sys.modules:
        yield name
        return
    from tests.hub import stores

    with stores.used(name):
        yield name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with the mark `both_stores` on both, unless `--store` names one."""
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "both_stores" in marks and not metafunc.config.getoption("--store"):
        names = ["sqlite"] if "sqlite_only" in marks else ["sqlite", "postgres"]
        metafunc.parametrize("store", names, indirect=True)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of a database in PostgreSQL with the tables of a hub, for one test."""
    from tests import postgres_server

    with postgres_server.hub_database() as url:
        yield url


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out and put it first; otherwise the order stays."""
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(here).parts[0]
        if folder in _SLOW:
            item.add_marker("slow")
        return _SLOW.index(folder) if folder in _SLOW else len(_SLOW)

    items.sort(key=place)
