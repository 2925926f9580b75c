"""Whether bytes are UTF-8, as Python's strict decoder sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .options import inline, kernel

__all__ = ["utf8"]

_1, _2, _3, _4, _5, _6, _7, _8 = (np.uint64(number) for number in range(1, 9))


@inline
def utf8(buf: Any, pos: Any, end: Any) -> Any:
    """Whether buf[pos:end] is UTF-8: no surrogates, nothing beyond U+10FFFF, no long forms.

    Most texts are short and ASCII. They are judged in place; the others are worth a call.
    """
    while end - pos >= _8:
        if _any_of_eight(buf, pos) >= 0x80:
            return _beyond_ascii(buf, pos, end)
        pos += _8
    while pos < end:
        if buf[pos] >= 0x80:
            return _beyond_ascii(buf, pos, end)
        pos += _1
    return True


@inline
def _any_of_eight(buf: Any, pos: Any) -> Any:
    """The bits that any of eight bytes has."""
    return (
        buf[pos]
        | buf[pos + _1]
        | buf[pos + _2]
        | buf[pos + _3]
        | buf[pos + _4]
        | buf[pos + _5]
        | buf[pos + _6]
        | buf[pos + _7]
    )


@kernel
def _beyond_ascii(buf: Any, pos: Any, end: Any) -> Any:
    """The same for bytes of which some are not ASCII."""
    while pos < end:
        if end - pos >= _8 and _any_of_eight(buf, pos) < 0x80:
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
            if left < _4 or buf[pos + _1] & 0xC0 != 0x80:
                return False
            if buf[pos + _2] & 0xC0 != 0x80 or buf[pos + _3] & 0xC0 != 0x80:
                return False
            if first == 0xF0 and buf[pos + _1] < 0x90:
                return False
            if first == 0xF4 and buf[pos + _1] > 0x8F:
                return False
            pos += _4
        else:
            return False
    return True
