"""Traffic: simulated populations, as captures with the truth beside them."""

from __future__ import annotations

from .plan import PROTOCOLS, STYLES, SimulateError, parse_size
from .simulate import simulate
from .summary import Summary, Target

__all__ = ["PROTOCOLS", "STYLES", "SimulateError", "Summary", "Target", "parse_size", "simulate"]
