"""The parser of command lines rejects what the commands reject."""

from __future__ import annotations

import click
import pytest

from .shipped import options


def test_options_are_those_of_the_real_command() -> None:
    said = options(["lake", "run", "--from", "recordings", "--to", "tables", "--stream"])
    assert (said["captures"], said["stream"]) == ("recordings", True)
    assert options(["hub", "--data", "here"])["data"] == "here"


@pytest.mark.parametrize(
    "words",
    [
        ["hub", "--dta", "here"],
        ["hub", "--data", "here", "stray"],
        ["lake", "run", "--from", "recordings"],
        ["lake", "walk"],
    ],
)
def test_invalid_command_lines_are_rejected(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        options(words)
