"""Addresses, ports and ids of connections."""

from __future__ import annotations

import ipaddress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wirelake.capture.tcp.connections import Endpoint, connection_id
from wirelake.records.tunnels import tunnel_connection
from wirelake.traffic.packets import numbers as hosts

COUNT = np.arange(4_000, dtype=np.uint64) * np.uint64(65_537)
HOST = np.array([0, 0, 1, 7])
PORT = np.array([0, 1, 0, 31])


def test_no_two_connections_have_the_same_ends() -> None:
    addresses = hosts.addresses(COUNT, HOST).reshape(-1, 4)
    ports = hosts.ports(COUNT, HOST, PORT).ravel()
    ends = {(a.tobytes(), int(p)) for a, p in zip(addresses, ports, strict=True)}
    assert len(ends) == len(ports)
    assert ports.min() >= 10_000


def test_connections_of_a_host_share_its_address() -> None:
    addresses = hosts.addresses(COUNT, HOST)
    assert (addresses[:, 0] == addresses[:, 1]).all()
    assert (addresses[:, 0] != addresses[:, 2]).any()


def test_addresses_as_text() -> None:
    addresses = hosts.addresses(COUNT[:5], HOST)
    for address, text in zip(
        addresses.reshape(-1, 4), hosts.address_text(addresses).reshape(-1, 14), strict=True
    ):
        assert str(ipaddress.ip_address(address.tobytes())) == text.tobytes().decode()


def test_recorded_ids_are_distinct_and_of_one_width() -> None:
    ids = hosts.connection_ids(COUNT, 8).ravel()
    assert len(set(ids.tolist())) == len(ids)
    assert ids.min() >= 10**18


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.integers(1, 2**16 - 1), st.integers(0)
)
def test_other_ids_are_those_that_readers_make(
    address: int, port: int, server: int, first: int
) -> None:
    first %= 1 << 63
    client = address.to_bytes(4, "big")
    found = hosts.hashed_ids(
        np.frombuffer(client, np.uint8)[None, None],
        np.array([[port]]),
        np.array([server]),
        np.array([[first]], np.uint64),
    )
    wanted = connection_id(Endpoint(client, port), Endpoint(hosts.SERVER, server), first)
    assert found.tolist() == [[wanted]]


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_ids_of_tunnels_are_those_that_readers_make(instance: int, tunnel: int) -> None:
    found = hosts.tunnel_ids(np.array([instance], np.uint64), np.array([tunnel], np.uint64))
    assert found.tolist() == [tunnel_connection(instance, tunnel)]
