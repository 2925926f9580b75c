"""The kernels in the package are those that the declarations give."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from wirelake.columnar import jit
from wirelake.columnar.decode.kernel import _helper_version, load
from wirelake.columnar.generate.__main__ import FOLDER, sources
from wirelake.columnar.generate.module import decoders, kernel_source
from wirelake.protocols import registry
from wirelake.wire.generate.dynamic import cache_folder

pytestmark = pytest.mark.slow


def test_the_committed_kernels_are_up_to_date() -> None:
    for path, source in sources().items():
        assert path.read_text(encoding="utf-8") == source, f"{path.name} is out of date"


def test_no_kernel_is_left_over() -> None:
    found = {path for path in FOLDER.glob("*.py") if path.name != "__init__.py"}
    assert found == set(sources())


@pytest.mark.parametrize("name", ["comet", "weather"])
def test_the_source_of_a_kernel_is_the_same_every_time(name: str) -> None:
    protocol = registry.find(name)
    dialect = protocol.dialects[0]
    assert kernel_source(protocol, dialect) == kernel_source(protocol, dialect)


def test_columns_of_a_plan_have_names_of_their_own() -> None:
    for name in registry.names():
        protocol = registry.find(name)
        for dialect in protocol.dialects:
            for decoder in decoders(protocol, dialect):
                names = [column.name for column in decoder.result.columns]
                assert len(names) == len(set(names))


def test_kernels_of_other_dialects_are_generated_into_the_cache() -> None:
    protocol = registry.find("comet")
    kernels = load(protocol, "hipush")
    assert Path(str(kernels._module.__file__)).parent == cache_folder()
    assert Path(str(kernels._module.__file__)).read_text(encoding="utf-8") == kernel_source(
        protocol, "hipush"
    )


def test_a_change_in_a_compiled_helper_changes_the_name_of_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba compares the kernel's own file alone with its cache of machine code."""
    before = _helper_version()
    copy = tmp_path / "jit"
    shutil.copytree(jit.__path__[0], copy)
    helper = copy / "intrinsics.py"
    helper.write_text(helper.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    monkeypatch.setattr(jit, "__path__", [str(copy)])
    assert _helper_version.__wrapped__() != before


READ_ONLY = """
    import sys
    import tempfile
    from pathlib import Path

    create = tempfile.TemporaryFile

    def refuse(*args, **kwargs):
        if not Path(kwargs["dir"]).is_relative_to(tempfile.gettempdir()):
            raise PermissionError(13, "Permission denied")
        return create(*args, **kwargs)

    tempfile.TemporaryFile = refuse  # how Numba finds out whether a folder can be written

    from wirelake.columnar.decode.kernel import load
    from wirelake.protocols import registry

    kernels = load(registry.find("comet"), "hipush")
    kernels.scan(*(__import__("numpy").empty(0, kind) for kind in ("u1", "i8", "i8")))
    print(kernels._module.__file__)
"""


def test_kernels_work_when_neither_cache_nor_installation_can_be_written(tmp_path: Path) -> None:
    """Permissions do not stop root, so Numba's own test is made to fail."""
    places = {"HOME": "/proc/none", "WIRELAKE_CACHE": "/proc/none", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READ_ONLY)],
        env={k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | places,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
    assert list(tmp_path.rglob("kernels/**/*.nbc"))


def test_a_protocol_of_another_package_has_kernels_as_well() -> None:
    kernels = load(registry.find("weather"))
    kernels.warm()
    assert kernels.frames.plan.tables[0].name == "root"
