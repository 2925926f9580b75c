"""A protocol of one's own for Wirelake: weather buoys. Its declaration is in `layout.py`."""

from .layout import PROTOCOL, Hello, Order, Report, Sky

__all__ = ["PROTOCOL", "Hello", "Order", "Report", "Sky"]
