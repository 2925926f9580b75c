"""The benchmark of sessions talks as it should, and its shares add up.

No assertion here is about time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.session_pairs import MAKERS, cipher_passes, fresh_ciphers
from benchmarks.sessions import DEPTHS, KINDS, main, run, summary, table
from benchmarks.timing import Timing


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKERS)
def test_a_pair_talks_without_end(name: str, kind: str) -> None:
    pair = MAKERS[name]()
    talk = pair.exchange if kind == "request" else pair.push
    for depth in (*DEPTHS, *DEPTHS):
        heard = talk(depth)
        assert len(heard) == depth
        assert all(map(pair.expects[kind], heard))
    assert not pair.client.buffered
    assert not pair.server.buffered


@pytest.mark.parametrize("name", MAKERS)
def test_the_codec_works_on_the_same_frames(name: str) -> None:
    pair = MAKERS[name]()
    assert [up for _, up in pair.frames("request")] == [True, False]
    assert [up for _, up in pair.frames("push")] == [False]
    for kind in KINDS:
        for data, up in pair.frames(kind):
            pair.codec(data, up)()


def test_new_ciphers_do_the_same() -> None:
    fresh = fresh_ciphers()
    for kind in KINDS:
        talk = fresh.exchange if kind == "request" else fresh.push
        assert all(map(fresh.expects[kind], talk(3)))
    works = cipher_passes(MAKERS["magline"]().frames("request"))
    for work in (*works.values(), *works.values()):
        work()


def test_a_pair_with_invalid_messages_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = MAKERS["tny"]()._replace(answer=lambda _: None)
    monkeypatch.setitem(MAKERS, "tny", lambda: silent)
    with pytest.raises(RuntimeError, match="this was heard"):
        run("tny", "request", 0.001, 1)


def test_shares_add_up() -> None:
    times = {
        "depth_1": Timing(10.0, 11.0),
        "depth_32": Timing(5.0, 6.0),
        "depth_1_new_ciphers": Timing(20.0, 21.0),
        "depth_32_new_ciphers": Timing(16.0, 17.0),
        "codec": Timing(1.0, 1.0),
        "ciphers": Timing(2.0, 2.0),
        "new_ciphers": Timing(8.0, 8.0),
    }
    found = summary(times)
    assert found["depth_1"] == {
        "us": 10.0,
        "messages_per_s": 100_000,
        "codec_share": 0.1,
        "cipher_share": 0.2,
        "logic_share": 0.7,
    }
    assert found["depth_32_new_ciphers"]["cipher_share"] == 0.5
    text = table({"magline": {"push": times}})
    assert "depth 32 is 2.00 times depth 1" in text
    assert "kept cipher contexts are 4.00 times new ones, 3.20 times" in text


def test_a_tiny_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "results" / "sessions.json"
    assert main(["--seconds", "0.002", "--rounds", "1", "--json", str(record)]) == 0
    found = json.loads(record.read_text("utf-8"))
    assert set(found["results"]) == set(MAKERS)
    for kinds in found["results"].values():
        assert set(kinds) == set(KINDS)
        for kind in kinds.values():
            assert {"depth_1", "depth_32"} <= set(kind["summary"])
    assert "magline push, depth 32 new ciphers" in capsys.readouterr().out
