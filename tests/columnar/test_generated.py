"""The kernels in the package are those that the declarations give."""

from __future__ import annotations

import pytest

from wirelake.columnar.decode.kernel import load
from wirelake.columnar.generate.__main__ import FOLDER, sources
from wirelake.columnar.generate.module import decoders, kernel_source
from wirelake.protocols import registry


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
                names = [column.name for column in decoder.found.columns]
                assert len(names) == len(set(names))


def test_a_protocol_of_another_package_has_kernels_as_well() -> None:
    kernels = load(registry.find("weather"))
    kernels.warm()
    assert kernels.frames.plan.tables[0].name == "root"
