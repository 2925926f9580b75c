"""Truth of `connections` and `tunnels`: from the first packet to the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wirelake.capture.tcp.headers import FIN, RST, SYN

from ..packets.numbers import SERVER, TUNNEL_FORM
from ..packets.packet_template import PacketTemplate
from ..scenes.provider import DIRECTIONS
from ..scenes.scene import C2S
from .messages import ReadMessage, SceneRead, text_cell, tunnel_cell
from .rows import Address, Conn, Id, Pause, Port, Row, Rows, Time

__all__ = ["ConnectionSpan", "connections", "spans", "tunnels"]

_SIDES: Final = ("client", "server")


@dataclass(slots=True)
class ConnectionSpan:
    """How one connection begins and ends, as its packets show it."""

    opened: int
    """The item that is its SYN."""
    closed: int | None = None
    """The item that closed it: the second FIN, or a RST."""
    by: str | None = None
    how: str | None = None
    reason: str | None = None
    """The reason that the server reports to its recorder."""


def spans(packets: PacketTemplate) -> list[ConnectionSpan]:
    """Return the span of each connection."""
    found = [ConnectionSpan(-1) for _ in packets.template.connections]
    fins: list[set[int]] = [set() for _ in found]
    for n, item in enumerate(packets.items):
        if not item.is_packet:
            continue
        span = found[item.connection]
        if item.flags & SYN and span.opened < 0:
            span.opened = n
        if item.flags & (FIN | RST) and span.by is None:
            span.by = _SIDES[item.direction]
        if item.flags & FIN:
            fins[item.connection].add(item.direction)
        if span.closed is None and (item.flags & RST or len(fins[item.connection]) == 2):
            span.closed, span.how = n, "rst" if item.flags & RST else "fin"
    for event in packets.template.events:
        if event.kind == "close" and event.connection is not None:
            found[packets.template.places[event.connection.number]].reason = event.reason
    return found


def connections(
    packets: PacketTemplate, scene: SceneRead, spans: list[ConnectionSpan], *, facts: bool
) -> Rows:
    """Return a row for each connection. `facts`: the capture has the reason of a close."""
    before: dict[str, int] = {}
    rows: Rows = []
    for place, connection in enumerate(packets.template.connections):
        own = [each for each in scene.messages if each.connection == place and not each.tunnel]
        faults = [each.fault for each in scene.faults if each.connection == place]
        span = spans[place]
        last = max(
            span.opened, *(each.item for each in own), *(each.revealed_by for each in faults)
        )
        if span.closed is not None:
            last = span.closed
        row: Row = {
            "connection": Conn(place),
            "protocol": connection.protocol,
            "client_address": Address(place),
            "client_port": Port(place),
            "server_address": ".".join(map(str, SERVER)),
            "server_port": connection.scenes.server_port,
            "opened_ns": Time(span.opened),
            "first_ns": Time(span.opened),
            "last_ns": Time(last),
            "duration_ns": Pause(span.opened, last),
            "faults": len(faults),
            "gaps": sum(each.code == "gap" for each in faults),
            "missing_bytes": sum(each.missing for each in faults),
            **_counts(own),
            **_from_messages(packets, own, before, place),
        }
        if span.closed is not None:
            row |= {
                "closed_ns": Time(span.closed),
                "closed_by": span.by,
                "closed_how": span.how,
            }
        if facts and span.reason is not None:
            row["close_reason"] = span.reason
        rows.append(row)
    return rows


def _counts(own: list[ReadMessage]) -> Row:
    row: Row = {}
    for direction, name in enumerate(DIRECTIONS):
        sent = [each for each in own if each.direction == direction]
        row[f"messages_{name}"] = len(sent)
        row[f"bytes_{name}"] = sum(each.size for each in sent)
    kinds = [each.info.kind for each in own]
    row["requests"] = kinds.count("request")
    row["pushes"] = kinds.count("push") + kinds.count("event")
    row["failures"] = sum(each.info.kind == "response" and each.info.status != "ok" for each in own)
    row["heartbeats"] = sum(each.info.heartbeat for each in own)
    return row


def _from_messages(
    packets: PacketTemplate, own: list[ReadMessage], before: dict[str, int], place: int
) -> Row:
    """Return the columns that messages fill."""
    row: Row = {}
    handshake: ReadMessage | None = None
    for each in own:
        info = each.info
        if info.client is not None and "client" not in row:
            row["client"] = text_cell(packets, info.client)
            row["signed_on_ns"] = Time(each.item)
            if info.client in before:
                row["previous_connection"] = Conn(before[info.client])
            before[info.client] = place
        row |= info.device
        if info.kind == "handshake":
            if each.direction == C2S:
                handshake = each
                if info.resumes:
                    row["resumed"] = False
            elif handshake is not None:
                row["handshake_ns"] = Pause(handshake.item, each.item)
                if "resumed" in row:
                    row["resumed"] = True
        elif info.kind == "control" and info.reason is not None:
            row.setdefault("close_reason", info.reason)
    return row


def tunnels(packets: PacketTemplate, scene: SceneRead, spans: list[ConnectionSpan]) -> Rows:
    """Return a row for each tunnel."""
    found: dict[tuple[int, int], Row] = {}
    for each in scene.messages:
        key = each.frame.info.tunnel
        if key is None or (each.tunnel is None and each.frame.inner is not None):
            continue
        row = found.setdefault(key, _tunnel(packets, key))
        row.setdefault("first_ns", Time(each.item))
        row.setdefault("first_link", Conn(each.connection))
        row["last_ns"] = Time(each.item)
        row["last_link"] = Conn(each.connection)
        if each.tunnel is not None:
            side = DIRECTIONS[each.direction]
            row[f"messages_{side}"] = int(row[f"messages_{side}"]) + 1  # type: ignore[arg-type]
            row[f"bytes_{side}"] = int(row[f"bytes_{side}"]) + each.size  # type: ignore[arg-type]
            continue
        match each.info.tunnel_event:
            case "connect":
                row["opened_ns"] = Time(each.item)
                assert each.info.tunnel_user is not None
                row["user_address"], row["user_port"] = each.info.tunnel_user
            case "connected":
                row["connected_ns"] = Time(each.item)
            case "disconnect" if row["outcome"] is None:
                row["outcome"], row["closed_ns"] = "closed", Time(each.item)
                row["closed_by"] = "gateway" if each.direction == C2S else "server"
    for row in found.values():
        if row["outcome"] is None:
            link = row["last_link"]
            assert isinstance(link, Conn)
            row["outcome"] = "open" if spans[link.place].closed is None else "lost"
    return list(found.values())


def _tunnel(packets: PacketTemplate, key: tuple[int, int]) -> Row:
    cell = tunnel_cell(packets, key)
    return {
        "connection": cell,
        "instance_id": Id(TUNNEL_FORM, cell.instance),
        "tunnel_id": Id(TUNNEL_FORM, cell.tunnel),
        "outcome": None,
        "switches": 0,
        "messages_c2s": 0,
        "messages_s2c": 0,
        "bytes_c2s": 0,
        "bytes_s2c": 0,
        "late_messages": 0,
    }
