"""Load the kernels of folds from the cache, or compile them.

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

__all__ = ["warm_folds"]


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
