"""The page of sessions: complete, and equal to the state tables."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest
from tools.pages.sessions import SESSIONS, Drawn, page

import wirelake.protocols
from wirelake.protocols.sansio import CLOSED, Session


def every_session() -> set[type[Session]]:
    """All classes that can be made and have tables of their own."""
    found = set()
    for info in pkgutil.walk_packages(wirelake.protocols.__path__, "wirelake.protocols."):
        module = importlib.import_module(info.name)
        for each in vars(module).values():
            if inspect.isclass(each) and issubclass(each, Session) and not inspect.isabstract(each):
                found.add(each)
    return {cls for cls in found if hasattr(cls, "TABLES")}


def test_every_session_has_a_diagram() -> None:
    assert {drawn.load() for drawn in SESSIONS} == every_session()


@pytest.mark.parametrize("drawn", SESSIONS, ids=lambda drawn: f"{drawn.protocol} {drawn.end}")
def test_state_tables_are_consistent(drawn: Drawn) -> None:
    """It begins where it says, leads nowhere else, and every state can be reached and left."""
    cls = drawn.load()
    for table in cls.TABLES.values():
        after = {step for triggers in table.values() for step in triggers.values()}
        assert after <= set(table)
        assert set(table) <= after | {cls.FIRST}
        assert not table[CLOSED]
        assert all(triggers for state, triggers in table.items() if state != CLOSED)


@pytest.mark.parametrize("drawn", SESSIONS, ids=lambda drawn: f"{drawn.protocol} {drawn.end}")
def test_every_transition_is_on_the_page(drawn: Drawn) -> None:
    heading = f"### {drawn.protocol}, {drawn.end}\n"
    text = page()
    assert text.count(heading) == 1
    section = re.split(r"^##", text.partition(heading)[2], maxsplit=1, flags=re.M)[0]
    for state, triggers in drawn.load().TABLES[drawn.role].items():
        for trigger, after in triggers.items():
            assert re.search(
                rf"^\| {re.escape(state)} \| [^|]*\b{re.escape(trigger)}\b[^|]* \| "
                rf"{re.escape(after)} \|$",
                section,
                re.M,
            ), (state, trigger)
    assert section.count("```dot\ndigraph {") == 1
