"""Whether bytes are UTF-8, as Python's strict decoder sees it."""

from __future__ import annotations

import numpy as np

from .numba_options import U, kernel

__all__ = ["utf8"]

_0, _1, _2, _3, _8 = (np.uint64(number) for number in (0, 1, 2, 3, 8))


@kernel
def utf8(buf, pos, end):  # type: ignore[no-untyped-def]
    """Whether buf[pos:end] is UTF-8: no surrogates, nothing beyond U+10FFFF, no long forms."""
    while pos < end:
        if end - pos >= _8:
            seen = (
                buf[pos]
                | buf[pos + _1]
                | buf[pos + _2]
                | buf[pos + _3]
                | buf[pos + U(4)]
                | buf[pos + U(5)]
                | buf[pos + U(6)]
                | buf[pos + U(7)]
            )
            if seen < 0x80:
                pos += _8
                continue
        first = buf[pos]
        if first < 0x80:
            pos += _1
            continue
        left = end - pos
        if first < 0xC2:
            return False
        if first < 0xE0:
            if left < _2 or buf[pos + _1] & 0xC0 != 0x80:
                return False
            pos += _2
        elif first < 0xF0:
            if left < _3 or buf[pos + _1] & 0xC0 != 0x80 or buf[pos + _2] & 0xC0 != 0x80:
                return False
            if first == 0xE0 and buf[pos + _1] < 0xA0:
                return False
            if first == 0xED and buf[pos + _1] > 0x9F:
                return False
            pos += _3
        elif first < 0xF5:
            if left < U(4) or buf[pos + _1] & 0xC0 != 0x80:
                return False
            if buf[pos + _2] & 0xC0 != 0x80 or buf[pos + _3] & 0xC0 != 0x80:
                return False
            if first == 0xF0 and buf[pos + _1] < 0x90:
                return False
            if first == 0xF4 and buf[pos + _1] > 0x8F:
                return False
            pos += U(4)
        else:
            return False
    return True
