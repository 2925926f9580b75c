"""Truth of `connections` and `tunnels`: from the first packet to the last."""

from __future__ import annotations

import ipaddress
from typing import Final

from wirelake.protocols.comet.layout import (
    Isp,
    NetworkType,
    ReportEnviron,
)
from wirelake.protocols.magline.layout import Frame as MaglineFrame
from wirelake.protocols.tny.layout import TunnelConnect

from ..packets.hosts import SERVER
from ..packets.packet_template import Plate
from ..packets.recorded import server_port
from ..scenes.scene import C2S
from .cells import (
    Address,
    Conn,
    Id,
    Pause,
    Port,
    Row,
    Sheet,
    Time,
)
from .ends import End
from .sightings import (
    DIRECTIONS,
    Seen,
    Sighting,
    text_cell,
    tunnel_cell,
)

__all__ = ["connections", "tunnels"]

_HEARTBEATS: Final = frozenset({"heartbeat", "ping", "pin", "link_ping"})


def connections(plate: Plate, seen: Seen, ends: list[End], *, facts: bool) -> Sheet:
    """One row for each connection; `facts`: whether the capture says why one was closed."""
    before: dict[str, int] = {}
    rows: Sheet = []
    for place, connection in enumerate(plate.mould.connections):
        mine = [each for each in seen.messages if each.connection == place and not each.tunnel]
        wrong = [each.fault for each in seen.faults if each.connection == place]
        end = ends[place]
        last = max(end.opened, *(each.item for each in mine), *(each.item for each in wrong))
        if end.closed is not None:
            last = end.closed
        row: Row = {
            "connection": Conn(place),
            "protocol": connection.protocol,
            "client_address": Address(place),
            "client_port": Port(place),
            "server_address": ".".join(map(str, SERVER)),
            "server_port": server_port(connection.protocol),
            "opened_ns": Time(end.opened),
            "first_ns": Time(end.opened),
            "last_ns": Time(last),
            "duration_ns": Pause(end.opened, last),
            "faults": len(wrong),
            "gaps": sum(each.code == "gap" for each in wrong),
            "missing_bytes": sum(each.missing for each in wrong),
            **_counts(mine),
            **_said(plate, mine, before, place),
        }
        if end.closed is not None:
            row |= {
                "closed_ns": Time(end.closed),
                "closed_by": end.by,
                "closed_how": end.how,
            }
        if facts and end.reason is not None:
            row["close_reason"] = end.reason
        rows.append(row)
    return rows


def _counts(mine: list[Sighting]) -> Row:
    row: Row = {}
    for direction, name in enumerate(DIRECTIONS):
        ours = [each for each in mine if each.direction == direction]
        row[f"messages_{name}"] = len(ours)
        row[f"bytes_{name}"] = sum(each.size for each in ours)
    kinds = [each.means.kind for each in mine]
    row["requests"] = kinds.count("request")
    row["pushes"] = kinds.count("push") + kinds.count("event")
    row["failures"] = sum(
        each.means.kind == "response" and each.means.status != "ok" for each in mine
    )
    row["heartbeats"] = sum(each.means.name in _HEARTBEATS for each in mine)
    return row


def _said(plate: Plate, mine: list[Sighting], before: dict[str, int], place: int) -> Row:
    """What the messages tell of the connection."""
    row: Row = {}
    began: Sighting | None = None
    for each in mine:
        means = each.means
        if means.client is not None and "client" not in row:
            row["client"] = text_cell(plate, means.client)
            row["signed_on_ns"] = Time(each.item)
            if means.client in before:
                row["previous_connection"] = Conn(before[means.client])
            before[means.client] = place
        if isinstance(each.frame.message, ReportEnviron):
            row["network_type"] = NetworkType(each.frame.message.network_type).name.lower()
            row["isp"] = Isp(each.frame.message.isp).name.lower()
            row["phone_type"] = each.frame.message.phone_type
        if means.kind == "handshake":
            if each.direction == C2S:
                began = each
                assert isinstance(each.frame.message, MaglineFrame)
                if each.frame.message.resume is not None:
                    row["resumed"] = False
            elif began is not None:
                row["handshake_ns"] = Pause(began.item, each.item)
                if "resumed" in row:
                    row["resumed"] = True
        elif means.kind == "control" and means.reason is not None:
            row.setdefault("close_reason", means.reason)
    return row


def tunnels(plate: Plate, seen: Seen, ends: list[End]) -> Sheet:
    """One row for each tunnel."""
    found: dict[tuple[int, int], Row] = {}
    for each in seen.messages:
        key = each.frame.means.tunnel
        if each.protocol not in {"relay", "tny"} or key is None:
            continue
        if each.tunnel is None and each.means.name == "tunnel_relay":
            continue
        row = found.setdefault(key, _tunnel(plate, key))
        _seen(row, each)
        name = each.means.name
        if each.tunnel is not None:
            side = DIRECTIONS[each.direction]
            row[f"messages_{side}"] = int(row[f"messages_{side}"]) + 1  # type: ignore[arg-type]
            row[f"bytes_{side}"] = int(row[f"bytes_{side}"]) + each.size  # type: ignore[arg-type]
        elif name == "tunnel_connect":
            row["opened_ns"] = Time(each.item)
            asked = each.frame.message.arguments
            assert isinstance(asked, TunnelConnect)
            row["user_address"] = str(ipaddress.ip_address(asked.ip))
            row["user_port"] = asked.port
        elif name == "tunnel_connected":
            row["connected_ns"] = Time(each.item)
        elif name == "tunnel_disconnect" and row["outcome"] is None:
            row["outcome"], row["closed_ns"] = "closed", Time(each.item)
            row["closed_by"] = "gateway" if each.direction == C2S else "server"
    for row in found.values():
        if row["outcome"] is None:
            link = row["last_link"]
            assert isinstance(link, Conn)
            row["outcome"] = "open" if ends[link.place].closed is None else "lost"
    return list(found.values())


def _tunnel(plate: Plate, key: tuple[int, int]) -> Row:
    cell = tunnel_cell(plate, key)
    return {
        "connection": cell,
        "instance_id": Id("i64le", cell.instance),
        "tunnel_id": Id("i64le", cell.tunnel),
        "outcome": None,
        "switches": 0,
        "messages_c2s": 0,
        "messages_s2c": 0,
        "bytes_c2s": 0,
        "bytes_s2c": 0,
        "late_messages": 0,
    }


def _seen(row: Row, each: Sighting) -> None:
    row.setdefault("first_ns", Time(each.item))
    row.setdefault("first_link", Conn(each.connection))
    row["last_ns"] = Time(each.item)
    row["last_link"] = Conn(each.connection)
