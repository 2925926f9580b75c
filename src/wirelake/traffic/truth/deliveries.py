"""Truth of `deliveries`: what was published for whom, how often it was sent, when it was acked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import PacketTemplate
from ..scenes.scene import C2S, S2C
from .calls import HARMLESS
from .messages import ReadMessage, SceneRead, text_cell
from .rows import Conn, Pause, Published, Row, Rows, Time

__all__ = ["deliveries"]


@dataclass(slots=True)
class _Delivery:
    protocol: str
    client: str
    sent: list[ReadMessage] = field(default_factory=list)
    acked: list[ReadMessage] = field(default_factory=list)


def deliveries(
    packets: PacketTemplate,
    scene: SceneRead,
    *,
    facts: bool,
    times: npt.NDArray[np.int64] | None,
) -> Rows:
    """One row for each notification.

    `facts`: the capture has what was published. `times` of the items, where there are faults.
    """
    found: dict[str, _Delivery] = {}
    if facts:
        for event in (packets.template.events[n] for n in packets.template.published.values()):
            found[event.facts["id"]] = _Delivery(event.protocol, event.facts["client"])
    clients: dict[int, str] = {}
    for each in scene.messages:
        if each.info.client is not None:
            clients[each.connection] = each.info.client
        for notification in each.info.ids:
            delivery = _Delivery(each.protocol, clients[each.connection])
            row = found.setdefault(notification, delivery)
            (row.sent if each.direction == S2C else row.acked).append(each)
    uncertain_until = _uncertain_until(scene, times)
    return [_row(packets, name, row, facts, times, uncertain_until) for name, row in found.items()]


def _uncertain_until(scene: SceneRead, times: npt.NDArray[np.int64] | None) -> int:
    """Return until when an acknowledgement may have been missed; a scene has one such client."""
    if times is None:
        return -1
    codes = (
        each for each in scene.faults if each.direction == C2S and each.fault.code not in HARMLESS
    )
    return max((int(times[each.fault.item]) for each in codes), default=-1)


def _row(
    packets: PacketTemplate,
    notification: str,
    found: _Delivery,
    facts: bool,
    times: npt.NDArray[np.int64] | None,
    uncertain_until: int,
) -> Row:
    at = packets.template.published[notification]
    item = packets.at[at]
    row: Row = {
        "notification": text_cell(packets, notification),
        "protocol": found.protocol,
        "client": text_cell(packets, found.client),
        "outcome": _outcome(found, times, uncertain_until),
        "topic": packets.template.events[at].facts["topic"] if facts else None,
        "published_ns": Time(item) if facts else Published(item) if found.sent else None,
        "sends": len(found.sent),
        "acks": len(found.acked),
    }
    if found.sent:
        first, last = found.sent[0], found.sent[-1]
        row |= {
            "first_sent_ns": Time(first.item),
            "last_sent_ns": Time(last.item),
            "first_connection": Conn(first.connection),
            "last_connection": Conn(last.connection),
        }
    if found.acked:
        row["acked_ns"] = Time(found.acked[0].item)
        row["acked_connection"] = Conn(found.acked[0].connection)
        if found.sent:
            row["latency_ns"] = Pause(found.sent[0].item, found.acked[0].item)
    return row


def _outcome(found: _Delivery, times: npt.NDArray[np.int64] | None, uncertain_until: int) -> str:
    if not found.sent:
        return "orphan" if found.acked else "unsent"
    if found.acked:
        return "acked"
    uncertain = times is not None and times[found.sent[0].item] <= uncertain_until
    return "unknown" if uncertain else "unacked"
