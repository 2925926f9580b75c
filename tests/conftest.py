"""What every test shares: a codec cache of its own, and how hard Hypothesis tries.

`WIREHOUSE_PROFILE=soak` runs the properties with many more examples; `ci`, the default, keeps
them inside the time of `make test`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    max_examples=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", parent=settings.get_profile("ci"), max_examples=2_000)
settings.load_profile(os.environ.get("WIREHOUSE_PROFILE", "ci"))

_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Codecs of layouts that tests declare go to a folder of this run, not to the user's."""
    folder = Path(tempfile.mkdtemp(prefix="wirehouse-tests-"))
    config.stash[_FOLDER] = folder
    os.environ["WIREHOUSE_CACHE"] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes that folder."""
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)
