"""Scenes of every kind: what is said in them, and what a template finds of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from wirelake.traffic.packets.numbers import encode
from wirelake.traffic.scenes.provider import (
    Frame,
    SceneTemplate,
    built_in,
    make,
    scenario,
    scenarios,
)
from wirelake.traffic.scenes.scene import C2S

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
def templates(scenario: str) -> list[SceneTemplate]:
    """A few scenes of one kind."""
    return [make(scenario, f"test/{seed}") for seed in SEEDS]


def frames(template: SceneTemplate) -> Iterator[tuple[bytes, Frame, int]]:
    """Every frame, the stream that it is in, and its direction."""
    for connection in template.connections:
        for direction, stream in enumerate(connection.streams):
            for frame in stream.frames:
                yield stream.data, frame, direction


def test_every_scenario_is_tested() -> None:
    assert SAID.keys() == {*scenarios(built_in()), *scenarios(["relay"])}


@pytest.mark.parametrize("scenario", SAID)
def test_all_messages_of_a_protocol_occur(scenario: str) -> None:
    said = {frame.info.name for template in templates(scenario) for _, frame, _ in frames(template)}
    assert set(SAID[scenario].split()) <= said


@pytest.mark.parametrize("name", SAID)
def test_only_the_protocols_that_are_named_are_seen(name: str) -> None:
    for template in templates(name):
        seen = {connection.protocol for connection in template.connections}
        assert seen == set(scenario(name).protocols)


@pytest.mark.parametrize("scenario", SAID)
def test_frames_fill_their_streams(scenario: str) -> None:
    for template in templates(scenario):
        for connection in template.connections:
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
    assert [h.at for h in one.events] == [h.at for h in two.events]


@pytest.mark.parametrize("scenario", SAID)
def test_time_does_not_go_back(scenario: str) -> None:
    for template in templates(scenario):
        times = [event.at for event in template.events]
        assert times == sorted(times)
        assert times[-1] < 1_800


@pytest.mark.parametrize("scenario", ["phone", "service", "game", "gateway", "link"])
def test_every_id_is_found_at_its_position(scenario: str) -> None:
    for template in templates(scenario):
        found = 0
        for connection in template.connections:
            for stream in connection.streams:
                for slot in stream.slots:
                    if not slot.is_time:
                        found += 1
                        number = encode(slot.form, template.numbers.first + slot.place)
                        assert stream.data[slot.start : slot.start + len(number)] == number
        result = sum(
            frame.info.id is not None or frame.info.client is not None or bool(frame.info.ids)
            for _, frame, _ in frames(template)
        )
        assert found >= result // 2 > 0


def test_phones_acknowledge_late_or_never_and_are_sent_to_again() -> None:
    sent: dict[str, int] = {}
    acked: set[str] = set()
    for template in templates("phone"):
        for _, frame, direction in frames(template):
            for each in frame.info.ids:
                if direction == C2S:
                    acked.add(each)
                else:
                    sent[each] = sent.get(each, 0) + 1
    assert acked < sent.keys()
    assert max(sent.values()) > 1
    assert any(len(template.connections) > 1 for template in templates("phone"))


def test_services_answer_in_parts_and_with_errors_and_some_calls_never() -> None:
    kinds = [frame.info for template in templates("service") for _, frame, _ in frames(template)]
    assert any(info.kind == "part" for info in kinds)
    assert any(info.status == "error" for info in kinds)
    asked = {info.id for info in kinds if info.kind == "request"}
    answered = {info.reply_to for info in kinds if info.kind == "response"}
    assert answered < asked


def test_gateways_have_several_tunnels_on_a_link_and_relay_messages() -> None:
    for template in templates("gateway"):
        links = [each for each in template.connections if each.protocol == "relay"]
        relayed = [f.inner for s in links[0].streams for f in s.frames if f.inner is not None]
        tunnels = {f.info.tunnel for s in links[0].streams for f in s.frames if f.info.tunnel}
        assert len(links) == 1
        assert len(tunnels) >= 2
        users = [each for each in template.connections if each.protocol == "tny"]
        asked = {f.info.id for u in users for f in u.streams[C2S].frames if f.info.target}
        assert asked == {each.info.id for each in relayed if each.info.kind == "request"}


def test_devices_resume_their_sessions() -> None:
    resumed = [
        frame.message.resume is not None
        for template in templates("device")
        for _, frame, _ in frames(template)
        if frame.info.name == "syn"
    ]
    assert True in resumed
    assert False in resumed
