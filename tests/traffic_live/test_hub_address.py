"""What a hub must be like before a live run starts."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from tests.hub_raw.hub_process import running_hub
from tests.traffic_live.live_runs import address_of, recording_hub

from wirelake.traffic.live import HubAddress, SimulateError, simulate_live


def _refusal(hub_address: HubAddress, folder: Path) -> str:
    with pytest.raises(SimulateError) as caught:
        simulate_live(hub_address, folder / "out", seconds=0.5, scale=0.01)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_connection_refused(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("a-throw-away-token-for-a-test\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        said = _refusal(HubAddress(f"http://127.0.0.1:{port}", tmp_path), tmp_path)
    assert "no hub answers" in said
    assert "wirelake hub" in said


@pytest.mark.parametrize("answer", [b"", b"\0\1no HTTP\r\n\r\n"])
def test_another_server(tmp_path: Path, answer: bytes) -> None:
    (tmp_path / "admin.token").write_text("a-throw-away-token-for-a-test\n")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as peer:
                peer.recv(1 << 16)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        said = _refusal(HubAddress(url, tmp_path), tmp_path)
        thread.join()
    assert said.startswith(f"{url}: not a hub's admin address; expected")


@pytest.mark.parametrize("url", ["127.0.0.1:9680", "https://127.0.0.1:9680", "http://:x", ""])
def test_no_address(tmp_path: Path, url: str) -> None:
    (tmp_path / "admin.token").write_text("a-throw-away-token-for-a-test\n")
    assert "invalid hub address" in _refusal(HubAddress(url, tmp_path), tmp_path)


def test_no_data(tmp_path: Path) -> None:
    assert "admin.token" in _refusal(HubAddress("http://127.0.0.1:1", tmp_path), tmp_path)


def test_a_hub_that_does_not_fit(tmp_path: Path) -> None:
    with running_hub(tmp_path, {"relay": {"enabled": False}}) as hub:
        assert "no listener for relay" in _refusal(address_of(hub), tmp_path)


def test_the_data_of_another_hub(tmp_path: Path) -> None:
    with recording_hub(tmp_path) as hub:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "admin.token").write_text("a-throw-away-token-for-a-test\n")
        stranger = HubAddress(address_of(hub).admin, tmp_path / "other")
        assert "401" in _refusal(stranger, tmp_path)


def test_a_hub_that_does_not_record(tmp_path: Path) -> None:
    with running_hub(tmp_path) as hub:
        assert "--record" in _refusal(address_of(hub), tmp_path)


def test_a_hub_without_the_services(tmp_path: Path) -> None:
    record = {"folder": str(tmp_path / "recordings")}
    changes = {"record": record, "magline": {"anonymous": True}}
    with running_hub(tmp_path, changes, demo=False) as hub:
        assert "--demo" in _refusal(address_of(hub), tmp_path)


def test_no_store(tmp_path: Path) -> None:
    with recording_hub(tmp_path) as hub:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "admin.token").write_text(hub.admin_token)
        stranger = HubAddress(address_of(hub).admin, tmp_path / "other")
        assert "no such store" in _refusal(stranger, tmp_path)
