"""Services that stream: a sequence over ESNP, a JSON list elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hub_raw import raw_esnp as esnp
from tests.hub_raw.hub_process import HubProcess
from tests.hub_raw.raw_esnp import RawEsnp
from tests.hub_raw.raw_tny import RawTny


class _StreamingHub(HubProcess):
    @property
    def command(self) -> list[str]:
        """The program with the streaming service."""
        return [
            sys.executable, "-m", "tests.hub_raw.streaming_hub", str(self.config), str(self.data),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """The hub."""
    folder: Path = tmp_path_factory.mktemp("streaming")
    hub = _StreamingHub(folder, {"esnp": {"auth": "none"}, "tny": {"auth": "none"}})
    hub.start()
    yield hub
    assert hub.stop() == 0


def test_items_are_parts_of_a_sequence(streaming: HubProcess) -> None:
    client = RawEsnp(streaming.dial("esnp"))
    client.send(esnp.call_rows(1, "stream", "count", {"to": 50}))
    parts = []
    while not parts or parts[-1].seq[0] != parts[-1].seq[1]:
        parts.append(client.answer(1))
        assert parts[-1].seq is not None
        assert {esnp.RESP, esnp.REQUEST} <= parts[-1].flags
    assert [part.seq[0] for part in parts] == list(range(1, len(parts) + 1))
    assert [part.data["n"] for part in parts if part.data] == list(range(1, 51))
    client.close()


def test_calls_during_a_stream(streaming: HubProcess) -> None:
    client = RawEsnp(streaming.dial("esnp"))
    more = esnp.flag(esnp.ASYNC)
    client.send(esnp.call_rows(1, "stream", "count", {"to": 100}, more))
    client.send(esnp.call_rows(2, "stream", "count", {"to": 3}, more))
    ended: dict[int, int] = {}
    seen: dict[int, list[int]] = {1: [], 2: []}
    while len(ended) < 2:
        part = client.answer()
        assert part.source_id is not None
        seen[part.source_id] += [part.data["n"]] if part.data else []
        if part.seq is not None and part.seq[0] == part.seq[1]:
            ended[part.source_id] = part.seq[0]
    assert seen == {1: list(range(1, 101)), 2: [1, 2, 3]}
    client.close()


def test_a_failed_stream_ends_with_an_error(streaming: HubProcess) -> None:
    client = RawEsnp(streaming.dial("esnp"))
    client.send(esnp.call_rows(1, "stream", "broken", {}))
    assert client.answer(1).data == {"n": 1}
    last = client.answer(1)
    assert last.error == "no more of this"
    assert client.call("stream", "count", {"to": 0}) == {}
    client.close()


def test_tny_gets_a_list(streaming: HubProcess) -> None:
    client = RawTny(streaming.dial("tny"))
    body = client.call(2001, b'{"to": 3}')
    assert json.loads(body or b"") == [{"n": 1}, {"n": 2}, {"n": 3}]
    client.close()
