"""Bytes and values: the declaration language, the generator, errors and limits.

Everything about a protocol's bytes is written once, as layout classes made of the words in
`types.py`. `declare.py` turns them into plain data (`model.py`), `generate/` turns that into
codecs, `views/` into schemas, dissectors, reference pages and test data.
"""

from .errors import (
    CODES,
    DecodeError,
    EncodeError,
    NeedMore,
    WireError,
)
from .protocol import Decoded, Protocol
from .types import Layout, Protobuf

__all__ = [
    "CODES",
    "DecodeError",
    "Decoded",
    "EncodeError",
    "Layout",
    "NeedMore",
    "Protobuf",
    "Protocol",
    "WireError",
]
