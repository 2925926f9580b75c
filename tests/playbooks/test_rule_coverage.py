"""Every rule has a playbook: the list of rules is that of the decision pages and of the code.

A playbook says which rules it proves with `@rule("comet.12")`. Here all of them are read, and each
id without one is named. What has a number on its page (`docs/decisions`) is listed from there; what
has a class or a code, from the enumeration or table that the code uses.

    comet.N, comet.7.N             the open questions, and what was settled after review
    comet.error.N, comet.class.*   what is answered, and what a decoder finds
    esnp.3.*, esnp.8.N             what messages do, and the live rules
    esnp.class.*                   what a decoder finds
    magline.N, .4.N, .6.N          the open questions, the security design, settled after review
    magline.S*                     the interactions of the document
    magline.error.*, magline.fin.* what is said when it fails, and when it ends
    tny.8.N, tny.11.N              where the dialects differ, and the live rules
    tny.error.*                    what a decoder finds
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from tests.playbooks.playbook import PROVEN

from wirelake.conformance.comet import CLASSES as COMET_CLASSES
from wirelake.conformance.esnp import CLASSES as ESNP_CLASSES
from wirelake.conformance.tny import CLASSES as TNY_CLASSES
from wirelake.protocols.comet.layout import ErrorCode
from wirelake.protocols.magline.layout import ErrorNumber, Reason

HERE = Path(__file__).parent
DECISIONS = HERE.parents[1] / "docs" / "decisions"


def page(name: str) -> str:
    """A page of decisions."""
    return (DECISIONS / f"{name}.md").read_text("utf-8")


def section(name: str, heading: str) -> str:
    """The text under a heading of a page, to the next of its kind."""
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", page(name), re.S | re.M)
    assert found, f"{name}.md has no section {heading!r}"
    return found[1]


def rows(name: str, heading: str) -> list[int]:
    """The numbers of the rows of a section's table."""
    return [int(n) for n in re.findall(r"^\| (\d+) \|", section(name, heading), re.M)]


def bullets(name: str, heading: str) -> int:
    """How many points a section has."""
    return len(re.findall(r"^- ", section(name, heading), re.M))


def numbered(prefix: str, numbers: object) -> set[str]:
    """Ids with numbers."""
    assert isinstance(numbers, list | range)
    return {f"{prefix}.{n}" for n in numbers}


INTERACTIONS = ("S1", "S2-1", "S2-2", "S3", "S4", "S5", "S6", "S7", "S8", "S9")
MESSAGES = [
    "reply",
    "matching",
    "kinds",
    "error",
    "timeouts",
    "trace",
    "sequence",
    "async",
    "version",
]


def required() -> set[str]:
    """All ids that need a playbook."""
    comet = numbered("comet", rows("comet", "3. Every open question"))
    comet |= numbered("comet.7", range(1, bullets("comet", "7. Settled after review") + 1))
    comet |= numbered("comet.error", [int(code) for code in ErrorCode])
    comet |= {f"comet.class.{name}" for name in COMET_CLASSES}
    esnp = numbered("esnp.8", range(1, 12)) | {f"esnp.3.{name}" for name in MESSAGES}
    esnp |= {f"esnp.class.{name}" for name in ESNP_CLASSES}
    magline = numbered("magline", rows("magline", "3. Every open question"))
    magline |= {f"magline.4.{n}" for n in re.findall(r"^### 4\.(\d+) ", page("magline"), re.M)}
    magline |= numbered("magline.6", range(1, bullets("magline", "6. Settled after review") + 1))
    magline |= {f"magline.{name}" for name in INTERACTIONS}
    magline |= {f"magline.error.{number.name.lower()}" for number in ErrorNumber}
    magline |= {f"magline.fin.{reason.name.lower()}" for reason in Reason}
    tny = numbered("tny.8", range(1, 11)) | numbered("tny.11", range(1, 8))
    tny |= {f"tny.error.{name}" for name in TNY_CLASSES}
    return comet | esnp | magline | tny


@pytest.fixture(scope="module")
def proven() -> dict[str, list[str]]:
    """Rule ids with their playbooks, all of which are read."""
    for path in sorted(HERE.rglob("test_*.py")):
        if path != Path(__file__):
            parts = path.relative_to(HERE).with_suffix("").parts
            importlib.import_module(".".join(("tests", "playbooks", *parts)))
    return PROVEN


def test_the_pages_have_the_rules_that_are_meant() -> None:
    """A page that loses a number, or a table that changes its form, shows here."""
    wanted = required()
    assert numbered("comet", range(1, 25)) | numbered("comet.7", range(1, 5)) <= wanted
    assert numbered("comet.error", range(8)) <= wanted
    assert numbered("magline", range(1, 22)) | numbered("magline.6", range(1, 5)) <= wanted
    assert numbered("magline.4", range(1, 14)) <= wanted
    assert len({each for each in wanted if each.startswith("comet.class.")}) == 8
    assert len({each for each in wanted if each.startswith("esnp.class.")}) == 18
    assert "comet.25" not in wanted
    assert "magline.22" not in wanted


def test_every_rule_has_a_playbook(proven: dict[str, list[str]]) -> None:
    without = sorted(required() - set(proven))
    assert not without, f"rules without a playbook: {', '.join(without)}"


def test_no_playbook_proves_a_rule_that_does_not_exist(proven: dict[str, list[str]]) -> None:
    """Ids of a listed family must be in the list; others name things that have no number."""
    listed = required()
    families = {each.rpartition(".")[0] for each in listed}
    free = {"magline", "magline.error", "magline.fin"}  # also words beside their numbers
    unknown = {
        each for each in proven if each not in listed and each.rpartition(".")[0] in families - free
    }
    numbers = {each for each in proven if re.fullmatch(r"[a-z]+\.\d+", each)} - listed
    assert not unknown | numbers


def test_every_proof_is_a_test(proven: dict[str, list[str]]) -> None:
    """A mark on something that pytest does not run would prove nothing."""
    for each, places in proven.items():
        for place in places:
            assert place.rpartition(".")[2].startswith("test_"), f"{each}: {place}"
