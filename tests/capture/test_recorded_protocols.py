"""What a recording says that its connections speak."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.capture.decode.protocol_selector import KnownProtocol, RecordedProtocols
from wirelake.capture.format.items import Fact
from wirelake.protocols import registry

TNY, ESNP = KnownProtocol(registry.find("tny")), KnownProtocol(registry.find("esnp"))


def fact(connection: int | None, protocol: Any, kind: str = "open") -> Fact:
    return Fact(0, 0, kind, connection, {"protocol": protocol})


def test_the_last_fact_counts_until_the_file_ends() -> None:
    introduced = RecordedProtocols()
    introduced.add(fact(7, "tny"))
    assert introduced.of(7) == TNY
    introduced.add(fact(7, "esnp"))
    introduced.add(fact(7, None))
    assert introduced.of(7) == ESNP
    assert introduced.of(8) is None
    assert introduced.of(None) is None
    introduced.begin_file()
    assert introduced.of(7) is None


@pytest.mark.parametrize(
    "said",
    [
        fact(None, "tny"),
        fact(7, None),
        fact(7, 5),
        fact(7, ["tny"]),
        fact(7, "tny", kind="close"),
        Fact(0, 0, "open", 7, {}),
    ],
)
def test_what_is_no_introduction(said: Fact) -> None:
    introduced = RecordedProtocols()
    introduced.add(said)
    assert len(introduced) == 0
    assert introduced.of(7) is None


def test_a_protocol_that_is_not_installed() -> None:
    introduced = RecordedProtocols()
    introduced.add(fact(7, "klingon"))
    assert introduced.of(7) == KnownProtocol(None)


def test_the_number_of_entries_is_bounded() -> None:
    """Those that were introduced last stay; a repeated introduction counts as a new one."""
    introduced = RecordedProtocols(limit=2)
    for connection in (1, 2, 1, 3):
        introduced.add(fact(connection, "tny"))
    assert [introduced.of(connection) for connection in (1, 2, 3)] == [TNY, None, TNY]
