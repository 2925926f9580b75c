"""Scenes of every kind: what is said in them, and what a mould finds of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from wirelake.traffic.packets.numbers import written
from wirelake.traffic.scenes.frames import Frame
from wirelake.traffic.scenes.scene import C2S
from wirelake.traffic.scenes.template import (
    SCENARIOS,
    Mould,
    make,
)

SEEDS = range(10)
SAID = {
    "phone": "auth auth_success error subscribe ok message message_list message_ack heartbeat"
    " report_environ get_topic_list topic_list get_message_list unsubscribe",
    "sealed_phone": "auth auth_success exchange_key ok message message_list message_ack",
    "service": "request response info info_response event trace_info",
    "game": "request response push ping pong",
    "gateway": "link_open link_opened link_ping link_pong link_close tunnel_connect request push"
    " tunnel_connected tunnel_relay tunnel_disconnect response",
    "link": "link_open link_opened tunnel_connect tunnel_connected tunnel_relay tunnel_disconnect",
    "device": "syn ack req rep psh pin pon fin err",
}


@functools.cache
def moulds(scenario: str) -> list[Mould]:
    """A few scenes of one kind."""
    return [make(scenario, f"test/{seed}") for seed in SEEDS]


def frames(mould: Mould) -> Iterator[tuple[bytes, Frame, int]]:
    """Every frame, the stream that it is in, and its direction."""
    for connection in mould.connections:
        for direction, stream in enumerate(connection.streams):
            for frame in stream.frames:
                yield stream.data, frame, direction


def test_every_scenario_is_tested() -> None:
    assert SAID.keys() == SCENARIOS.keys()


@pytest.mark.parametrize("scenario", SAID)
def test_all_of_a_protocol_is_said(scenario: str) -> None:
    said = {frame.means.name for mould in moulds(scenario) for _, frame, _ in frames(mould)}
    assert set(SAID[scenario].split()) <= said


@pytest.mark.parametrize("scenario", SAID)
def test_only_the_protocols_that_are_named_are_seen(scenario: str) -> None:
    for mould in moulds(scenario):
        seen = {connection.protocol for connection in mould.connections}
        assert seen == set(SCENARIOS[scenario][0])


@pytest.mark.parametrize("scenario", SAID)
def test_frames_fill_their_streams(scenario: str) -> None:
    for mould in moulds(scenario):
        for connection in mould.connections:
            for stream in connection.streams:
                ends = [0, *(frame.stop for frame in stream.frames)]
                assert [frame.start for frame in stream.frames] == ends[:-1]
                assert ends[-1] == len(stream.data)


@pytest.mark.parametrize("scenario", SAID)
def test_the_same_seed_is_the_same_scene(scenario: str) -> None:
    one, two = make(scenario, "again"), make(scenario, "again")
    assert [c.streams[C2S].data for c in one.connections] == [
        c.streams[C2S].data for c in two.connections
    ]
    assert [h.at for h in one.happenings] == [h.at for h in two.happenings]


@pytest.mark.parametrize("scenario", SAID)
def test_time_does_not_go_back(scenario: str) -> None:
    for mould in moulds(scenario):
        times = [happening.at for happening in mould.happenings]
        assert times == sorted(times)
        assert times[-1] < 1_800


@pytest.mark.parametrize("scenario", ["phone", "service", "game", "gateway", "link"])
def test_every_id_is_found_where_it_stands(scenario: str) -> None:
    for mould in moulds(scenario):
        found = 0
        for connection in mould.connections:
            for stream in connection.streams:
                for spot in stream.spots:
                    if not spot.is_time:
                        found += 1
                        number = written(spot.form, mould.numbers.first + spot.place)
                        assert stream.data[spot.start : spot.start + len(number)] == number
        told = sum(
            frame.means.id is not None or frame.means.client is not None or bool(frame.means.ids)
            for _, frame, _ in frames(mould)
        )
        assert found >= told // 2 > 0


def test_phones_acknowledge_late_or_never_and_are_sent_to_again() -> None:
    sent: dict[str, int] = {}
    acked: set[str] = set()
    for mould in moulds("phone"):
        for _, frame, direction in frames(mould):
            for each in frame.means.ids:
                if direction == C2S:
                    acked.add(each)
                else:
                    sent[each] = sent.get(each, 0) + 1
    assert acked < sent.keys()
    assert max(sent.values()) > 1
    assert any(len(mould.connections) > 1 for mould in moulds("phone"))


def test_services_answer_in_parts_and_with_errors_and_some_calls_never() -> None:
    kinds = [frame.means for mould in moulds("service") for _, frame, _ in frames(mould)]
    assert any(means.kind == "part" for means in kinds)
    assert any(means.status == "error" for means in kinds)
    asked = {means.id for means in kinds if means.kind == "request"}
    answered = {means.reply_to for means in kinds if means.kind == "response"}
    assert answered < asked


def test_gateways_have_several_tunnels_on_a_link_and_relay_what_users_say() -> None:
    for mould in moulds("gateway"):
        links = [each for each in mould.connections if each.protocol == "relay"]
        relayed = [f.inner for s in links[0].streams for f in s.frames if f.inner is not None]
        tunnels = {f.means.tunnel for s in links[0].streams for f in s.frames if f.means.tunnel}
        assert len(links) == 1
        assert len(tunnels) >= 2
        users = [each for each in mould.connections if each.protocol == "tny"]
        asked = {f.means.id for u in users for f in u.streams[C2S].frames if f.means.target}
        assert asked == {each.id for each in relayed if each.kind == "request"}


def test_devices_resume_their_sessions() -> None:
    resumed = [
        frame.message.resume is not None
        for mould in moulds("device")
        for _, frame, _ in frames(mould)
        if frame.means.name == "syn"
    ]
    assert True in resumed
    assert False in resumed
