"""Kernels of tny, dialect seed. Generated from wirelake.protocols.tny.layout: do not edit.

Regenerate it with `python -m wirelake.columnar.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

import numpy as np

from wirelake.columnar.jit.intrinsics import utf8
from wirelake.columnar.jit.options import U, inline, kernel

_0 = U(0x0)
_1 = U(0x1)
_2 = U(0x2)
_3 = U(0x3)
_4 = U(0x4)
_5 = U(0x5)
_6 = U(0x6)
_7 = U(0x7)
_8 = U(0x8)
_9 = U(0x9)
_16 = U(0x10)
_24 = U(0x18)
_63 = U(0x3f)
_127 = U(0x7f)
_128 = U(0x80)
_1048576 = U(0x100000)
_4294967295 = U(0xffffffff)


@kernel
def scan_packet(buf, run_starts, run_stops, starts, stops, runs, reached, wrong):
    n = _0
    for r in range(U(run_starts.shape[0])):
        pos = U(run_starts[r])
        end = U(run_stops[r])
        bad = False
        failed = False
        while pos < end:
            if end - pos < _9:
                if pos < end and buf[pos] != 116:
                    bad = True
                if pos + _1 < end and buf[pos + _1] != 110:
                    bad = True
                if pos + _2 < end and buf[pos + _2] != 121:
                    bad = True
                if pos + _3 < end and buf[pos + _3] != 46:
                    bad = True
                break
            if buf[pos] != 116 or buf[pos + _1] != 110 or buf[pos + _2] != 121 or buf[pos + _3] != 46:
                bad = True
                break
            bits_1 = U(buf[pos + _4])
            tag = (bits_1 & _3) >> _0
            if tag == _0:
                if end - pos < _9:
                    break
                length = U(buf[pos + _5 + _3]) << _24 | U(buf[pos + _5 + _2]) << _16 | U(buf[pos + _5 + _1]) << _8 | U(buf[pos + _5])
                if length < _0 or length > _1048576:
                    bad = True
                    break
                stop = pos + _9 + length
                if stop > end:
                    break
            elif tag == _1:
                if end - pos < _9:
                    if pos + _5 < end and buf[pos + _5] != 0:
                        bad = True
                    if pos + _6 < end and buf[pos + _6] != 0:
                        bad = True
                    if pos + _7 < end and buf[pos + _7] != 0:
                        bad = True
                    if pos + _8 < end and buf[pos + _8] != 0:
                        bad = True
                    break
                stop = pos + _9
            elif tag == _2:
                if end - pos < _9:
                    if pos + _5 < end and buf[pos + _5] != 0:
                        bad = True
                    if pos + _6 < end and buf[pos + _6] != 0:
                        bad = True
                    if pos + _7 < end and buf[pos + _7] != 0:
                        bad = True
                    if pos + _8 < end and buf[pos + _8] != 0:
                        bad = True
                    break
                stop = pos + _9
            else:
                bad = True
                break
            starts[n] = pos
            stops[n] = stop
            runs[n] = r
            n += _1
            pos = stop
        reached[r] = pos
        wrong[r] = bad
    return n


@kernel
def decode_packet(buf, starts, stops, directions, bad, counts, stack, root_reserved, root_waste, root_encrypt, root_verify, root_alternative, root_envelope_access_id, root_envelope_number, root_envelope_content_start, root_envelope_content_size):
    n_bad = _0
    n_root_envelope = _0
    for i in range(U(starts.shape[0])):
        pos = U(starts[i])
        end = U(stops[i])
        k_root_envelope = n_root_envelope
        good = False
        failed = False
        while True:
            if end - pos < _5:
                break
            if buf[pos] != 116 or buf[pos + _1] != 110 or buf[pos + _2] != 121 or buf[pos + _3] != 46:
                break
            bits_1 = U(buf[pos + _4])
            bit_reserved = (bits_1 >> _5) & _7
            root_reserved[i] = bit_reserved
            bit_waste = (bits_1 >> _4) & _1
            root_waste[i] = bit_waste
            bit_encrypt = (bits_1 >> _3) & _1
            root_encrypt[i] = bit_encrypt
            bit_verify = (bits_1 >> _2) & _1
            root_verify[i] = bit_verify
            bit_type = (bits_1) & _3
            tag = bit_type
            pos += _5
            if tag == _0:
                end_2 = end
                if end - pos < _4:
                    break
                size_3 = U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                pos += _4
                if size_3 > end - pos or size_3 < _0:
                    break
                end = pos + size_3
                if pos >= end:
                    break
                v_4 = U(buf[pos])
                pos += _1
                if v_4 >= _128:
                    v_4 &= _127
                    shift = _7
                    while True:
                        if pos >= end:
                            failed = True
                            break
                        byte = U(buf[pos])
                        pos += _1
                        if shift == _63 and byte > _1:
                            failed = True
                            break
                        v_4 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                root_envelope_access_id[k_root_envelope] = np.int64(v_4)
                if pos >= end:
                    break
                v_5 = U(buf[pos])
                pos += _1
                if v_5 >= _128:
                    v_5 &= _127
                    shift = _7
                    while True:
                        if pos >= end:
                            failed = True
                            break
                        byte = U(buf[pos])
                        pos += _1
                        if shift == _63 and byte > _1:
                            failed = True
                            break
                        v_5 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                if v_5 > _4294967295:
                    break
                root_envelope_number[k_root_envelope] = np.int32(np.int32(v_5))
                root_envelope_content_start[k_root_envelope] = pos
                root_envelope_content_size[k_root_envelope] = end - pos
                pos = end
                if pos != end:
                    break
                end = end_2
                k_root_envelope += _1
                root_alternative[i] = 0
            elif tag == _1:
                if end - pos < _4:
                    break
                if buf[pos] != 0 or buf[pos + _1] != 0 or buf[pos + _2] != 0 or buf[pos + _3] != 0:
                    break
                pos += _4
                root_alternative[i] = 1
            elif tag == _2:
                if end - pos < _4:
                    break
                if buf[pos] != 0 or buf[pos + _1] != 0 or buf[pos + _2] != 0 or buf[pos + _3] != 0:
                    break
                pos += _4
                root_alternative[i] = 2
            else:
                break
            if pos != end:
                break
            good = True
            break
        if good:
            n_root_envelope = k_root_envelope
            continue
        bad[n_bad] = i
        n_bad += _1
    counts[0] = n_root_envelope
    return n_bad


@kernel
def decode_message(buf, starts, stops, directions, bad, counts, stack, root_id, root_reserved, root_line, root_mode, root_protocol, root_code, root_to_message, root_time, root_forward_header_valid, root_forward_header_start, root_forward_header_size, root_body_valid, root_body_start, root_body_size):
    n_bad = _0
    for i in range(U(starts.shape[0])):
        pos = U(starts[i])
        end = U(stops[i])
        good = False
        failed = False
        while True:
            if pos >= end:
                break
            v_1 = U(buf[pos])
            pos += _1
            if v_1 >= _128:
                v_1 &= _127
                shift = _7
                while True:
                    if pos >= end:
                        failed = True
                        break
                    byte = U(buf[pos])
                    pos += _1
                    if shift == _63 and byte > _1:
                        failed = True
                        break
                    v_1 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            root_id[i] = np.int64(v_1)
            if end - pos < _1:
                break
            bits_2 = U(buf[pos])
            bit_reserved = (bits_2 >> _7) & _1
            root_reserved[i] = bit_reserved
            bit_has_forward_header = (bits_2 >> _6) & _1
            bit_line = (bits_2 >> _3) & _7
            root_line[i] = bit_line
            bit_has_body = (bits_2 >> _2) & _1
            bit_mode = (bits_2) & _3
            if bit_mode != _0 and bit_mode != _1 and bit_mode != _2:
                break
            root_mode[i] = bit_mode
            pos += _1
            if pos >= end:
                break
            v_3 = U(buf[pos])
            pos += _1
            if v_3 >= _128:
                v_3 &= _127
                shift = _7
                while True:
                    if pos >= end:
                        failed = True
                        break
                    byte = U(buf[pos])
                    pos += _1
                    if shift == _63 and byte > _1:
                        failed = True
                        break
                    v_3 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_3 > _4294967295:
                break
            root_protocol[i] = np.int32(np.int32(v_3))
            if pos >= end:
                break
            v_4 = U(buf[pos])
            pos += _1
            if v_4 >= _128:
                v_4 &= _127
                shift = _7
                while True:
                    if pos >= end:
                        failed = True
                        break
                    byte = U(buf[pos])
                    pos += _1
                    if shift == _63 and byte > _1:
                        failed = True
                        break
                    v_4 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_4 > _4294967295:
                break
            root_code[i] = np.int32(np.int32(v_4))
            if pos >= end:
                break
            v_5 = U(buf[pos])
            pos += _1
            if v_5 >= _128:
                v_5 &= _127
                shift = _7
                while True:
                    if pos >= end:
                        failed = True
                        break
                    byte = U(buf[pos])
                    pos += _1
                    if shift == _63 and byte > _1:
                        failed = True
                        break
                    v_5 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            root_to_message[i] = np.int64(v_5)
            if pos >= end:
                break
            v_6 = U(buf[pos])
            pos += _1
            if v_6 >= _128:
                v_6 &= _127
                shift = _7
                while True:
                    if pos >= end:
                        failed = True
                        break
                    byte = U(buf[pos])
                    pos += _1
                    if shift == _63 and byte > _1:
                        failed = True
                        break
                    v_6 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            root_time[i] = np.int64(v_6)
            if bit_has_forward_header != _0:
                if pos >= end:
                    break
                v_7 = U(buf[pos])
                pos += _1
                if v_7 >= _128:
                    v_7 &= _127
                    shift = _7
                    while True:
                        if pos >= end:
                            failed = True
                            break
                        byte = U(buf[pos])
                        pos += _1
                        if shift == _63 and byte > _1:
                            failed = True
                            break
                        v_7 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                if v_7 > end - pos:
                    break
                root_forward_header_start[i] = pos
                root_forward_header_size[i] = v_7
                pos += v_7
                root_forward_header_valid[i] = 1
            else:
                root_forward_header_valid[i] = 0
                root_forward_header_start[i] = 0
                root_forward_header_size[i] = 0
            if bit_has_body != _0:
                if pos >= end:
                    break
                v_8 = U(buf[pos])
                pos += _1
                if v_8 >= _128:
                    v_8 &= _127
                    shift = _7
                    while True:
                        if pos >= end:
                            failed = True
                            break
                        byte = U(buf[pos])
                        pos += _1
                        if shift == _63 and byte > _1:
                            failed = True
                            break
                        v_8 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                if v_8 > end - pos:
                    break
                root_body_start[i] = pos
                root_body_size[i] = v_8
                pos += v_8
                root_body_valid[i] = 1
            else:
                root_body_valid[i] = 0
                root_body_start[i] = 0
                root_body_size[i] = 0
            if pos != end:
                break
            good = True
            break
        if good:
            continue
        bad[n_bad] = i
        n_bad += _1
    return n_bad
