"""From bytes to values: the declaration language, the generator, errors and limits.

Everything about a protocol's bytes is declared once, as layout classes. In reading order:

    types.py     what layouts are written with: `U16`, `String8`, `Layout`; `marks.py` annotations
    declare.py   reads layout classes into plain data; `rules.py` checks what a layout may contain
    model.py     that data; everything else is derived from it; `walk.py` visits it
    generate/    codecs from the model, as Python source; `runtime.py` is what generated code calls
    protocol.py  `Protocol`: a frame, its dialects, its codec
    meaning.py   what the rest of the package needs to know about a protocol besides its bytes;
                 `meaning_rules.py` checks it against the layouts
    errors.py    every error code
    paths.py     checks that a path is local
    views/       schemas, dissectors, reference pages and test data from the same model

This package imports nothing of Wirelake besides itself, does no I/O apart from the cache of
generated codecs, reads no clock and draws no random numbers. It depends on msgspec alone; the
optional dependencies of views are imported in `views`.
"""

from .errors import CODES, DecodeError, EncodeError, NeedMore, WireError
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
