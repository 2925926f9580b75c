"""Truth of `deliveries`: what was published for whom, how often it was sent, when it was acked."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..packets.packet_template import Plate
from ..scenes.scene import C2S, S2C
from .calls import HARMLESS
from .cells import (
    Conn,
    Pause,
    Published,
    Row,
    Sheet,
    Time,
)
from .sightings import (
    Seen,
    Sighting,
    text_cell,
)

__all__ = ["deliveries"]


@dataclass(slots=True)
class _Delivery:
    client: str
    sent: list[Sighting] = field(default_factory=list)
    acked: list[Sighting] = field(default_factory=list)


def deliveries(
    plate: Plate, seen: Seen, *, facts: bool, times: npt.NDArray[np.int64] | None
) -> Sheet:
    """One row for each notification. `facts`: whether the capture holds what was published;
    `times` of the items where there are faults."""
    found: dict[str, _Delivery] = {}
    if facts:
        for happening in (plate.mould.happenings[n] for n in plate.mould.published.values()):
            found[happening.facts["id"]] = _Delivery(happening.facts["client"])
    clients: dict[int, str] = {}
    for each in seen.messages:
        if each.means.client is not None:
            clients[each.connection] = each.means.client
        for notification in each.means.ids:
            row = found.setdefault(notification, _Delivery(clients[each.connection]))
            (row.sent if each.direction == S2C else row.acked).append(each)
    doubt = _last_doubt(seen, times)
    return [_row(plate, name, row, facts, times, doubt) for name, row in found.items()]


def _last_doubt(seen: Seen, times: npt.NDArray[np.int64] | None) -> int:
    """When an acknowledgement may have been missed; a scene has one phone."""
    if times is None:
        return -1
    codes = (
        each for each in seen.faults if each.direction == C2S and each.fault.code not in HARMLESS
    )
    return max((int(times[each.fault.item]) for each in codes), default=-1)


def _row(
    plate: Plate,
    notification: str,
    found: _Delivery,
    facts: bool,
    times: npt.NDArray[np.int64] | None,
    doubt: int,
) -> Row:
    at = plate.mould.published[notification]
    item = plate.at[at]
    row: Row = {
        "notification": text_cell(plate, notification),
        "protocol": "comet",
        "client": text_cell(plate, found.client),
        "outcome": _outcome(found, times, doubt),
        "topic": plate.mould.happenings[at].facts["topic"] if facts else None,
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


def _outcome(found: _Delivery, times: npt.NDArray[np.int64] | None, doubt: int) -> str:
    if not found.sent:
        return "orphan" if found.acked else "unsent"
    if found.acked:
        return "acked"
    return "unknown" if times is not None and times[found.sent[0].item] <= doubt else "unacked"
