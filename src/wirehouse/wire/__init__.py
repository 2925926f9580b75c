"""Bytes and values: the declaration language, the generator, errors and limits.

Everything about a protocol's bytes is written once, as layout classes (`types.py`). `declare.py`
turns them into plain data (`model.py`), `generate/` turns that into codecs, `views/` into schemas,
dissectors, reference pages and test data.
"""

from .errors import CODES, DecodeError, EncodeError, NeedMore, WireError
from .model import Blob, Bool, Fixed, Float, Int, Varint
from .protocol import Decoded, Protocol
from .types import *  # noqa: F403
from .types import __all__ as _words

__all__ = [
    "CODES",
    "Blob",
    "Bool",
    "DecodeError",
    "Decoded",
    "EncodeError",
    "Fixed",
    "Float",
    "Int",
    "NeedMore",
    "Protocol",
    "Varint",
    "WireError",
    *_words,
]
