"""Load the kernels of the front end and of folds from the cache, or compile them.

For processes that are forked later, such as Spark's workers: no thread is started, no file opened.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wirelake.records.deliveries import CROSSING
from wirelake.records.rows import Closed, Opened

from ..fold.calls import expire_idle
from ..fold.fold import Fold
from ..fold.memory import Memory
from ..fold.tunnel_kernels import forget_tunnels
from ..fold.tunnels import TunnelFold
from ..jit.options import readonly
from ..scan import blocks
from ..scan.blocks import InterfaceTable
from ..scan.scanner import PacketRows
from ..tcp import packets as packet_kernels
from ..tcp import pieces
from ..tcp.frontend import FrontEnd
from ..tcp.packets import Packets
from ..tcp.reassembly import StreamRecord
from ..tcp.tracker import Tracker

__all__ = ["warm_folds", "warm_front_end"]


def warm_front_end() -> None:
    """Call every kernel of the front end once, with nothing."""
    for _ in FrontEnd([], ports=()).windows():
        pass
    rows = PacketRows(0)
    columns = rows.packet_i64, rows.packet_i32, rows.marks, 0
    blocks.scan_pcap(rows.data, 0, 0, 0, False, 1, 0, 0, *columns)
    faces = InterfaceTable().rows
    others = np.empty((3, 0), np.int64)
    blocks.scan_pcapng(rows.data, 0, 0, 0, False, True, faces, 0, *columns, others)
    packets = Packets(rows, file=0, before=0)
    none = np.empty(0, np.int64)
    tracker = Tracker((), limit=1, share=0, shares=1)
    packets.follow_run(tracker.streams, 0, none, 0)
    StreamRecord(tracker.streams, 0).save()
    target = np.empty(0, np.uint8)
    packet_kernels.tail(none, packets.data, packets.header_i64, packets.header_i32, target)
    packet_kernels.tail_before(
        -1, packets.previous, packets.data, packets.header_i64, packets.header_i32, target
    )
    pieces.copy_bytes(readonly(b""), none, none, target, none)
    nowhere = pieces.Pieces.empty(0)
    pieces.delivered(nowhere, none)
    pieces.ascending_pieces(nowhere, none)
    pieces.completion_order(np.zeros(1, np.int64))


def warm_folds() -> None:
    """Call every kernel of folds once, with next to nothing."""
    folded = Fold()
    for _ in folded.window([("connections", [Opened(0, 1), Closed(0, 1)]), ("waiting", {2: 0})]):
        pass
    Fold(state=[folded.save({})])
    for _ in folded.finish():
        pass
    tunnels = TunnelFold()
    closed = {"event": "closed", "ts_ns": 0, "rank": 4, "link": 1, "number": 0, "connection": 1}
    tunnels.feed([pa.RecordBatch.from_pylist([closed], schema=CROSSING["_tunnel_events"])])
    for _ in tunnels.finish():
        pass
    tables = Memory().tables()
    expire_idle(tables, 0)
    forget_tunnels(tables, tunnels.records(), np.empty(0, np.int32))
