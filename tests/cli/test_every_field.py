"""Every message and field of the documents on the command line: `encode` writes what `decode`
shows, and `protocols show` lists it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.protocols.samples import SAMPLES, Sample

from .conftest import Run


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: each.id)
def test_encode_and_decode(run: Run, sample: Sample) -> None:
    text = "\n".join(map(json.dumps, sample.messages)).encode()
    made = run("encode", sample.protocol, "--dialect", sample.dialect, "--hex", stdin=text)
    assert (made.code, made.err) == (0, "")
    raw = b"".join(map(bytes.fromhex, made.lines))
    found = run(
        *("decode", sample.protocol, "-", "--dialect", sample.dialect),
        *("--direction", sample.direction, "--json", "--reveal"),
        stdin=raw,
    )
    for message, line in zip(sample.messages, found.lines, strict=True):
        shown = dict(leaves(json.loads(line)))
        for path, value in leaves(message):
            # What a transform may have changed is shown below, as far as it can be undone.
            at = path.replace(".body.content.", ".@opened.message.")
            if at in shown or not _is_sealed(message):
                assert str(shown[at]) == str(value), line


def _is_sealed(message: dict[str, Any]) -> bool:
    return any(message.get(name) for name in ("verify", "encrypt", "waste"))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Return every value inside an object with its path."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(each, f"{path}.{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path, value
