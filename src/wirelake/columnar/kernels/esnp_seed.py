"""Kernels of esnp, dialect seed. Generated from wirelake.protocols.esnp.layout: do not edit.

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
_16 = U(0x10)
_17 = U(0x11)
_18 = U(0x12)
_20 = U(0x14)
_21 = U(0x15)
_22 = U(0x16)
_23 = U(0x17)
_24 = U(0x18)
_27 = U(0x1b)
_28 = U(0x1c)
_29 = U(0x1d)
_30 = U(0x1e)
_31 = U(0x1f)
_32 = U(0x20)
_40 = U(0x28)
_48 = U(0x30)
_56 = U(0x38)
_63 = U(0x3f)
_64 = U(0x40)
_127 = U(0x7f)
_128 = U(0x80)
_65535 = U(0xffff)
_65536 = U(0x10000)
_33554432 = U(0x2000000)
_2139095040 = U(0x7f800000)
_2147483647 = U(0x7fffffff)
_4294967295 = U(0xffffffff)
_9218868437227405312 = U(0x7ff0000000000000)
_9223372036854775807 = U(0x7fffffffffffffff)


@inline
def read_var(buf, pos, end, stack, k, parent, name_start, name_size, type, what, bits, start, size):
    first = k
    budget = _65536
    depth = _0
    left = _1
    inside = -1
    keyed = False
    failed = False
    while True:
        while left == _0 and depth > _0:
            depth -= _1
            at = depth * _3
            left = U(stack[at])
            inside = stack[at + _1]
            keyed = stack[at + _2] != 0
        if left == _0:
            return pos, k
        left -= _1
        parent[k] = inside
        name_start[k] = 0
        name_size[k] = -1
        if keyed:
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
            if v_1 & _1 != _0:
                break
            v_1 >>= _1
            if v_1 > end - pos:
                break
            if not utf8(buf, pos, pos + v_1):
                break
            name_start[k] = pos
            name_size[k] = v_1
            pos += v_1
        if end - pos < _1:
            break
        tag = buf[pos]
        pos += _1
        type[k] = tag
        what[k] = 0
        bits[k] = 0
        start[k] = 0
        size[k] = -1
        if tag == 0:
            pass
        elif tag == 1:
            if end - pos < _1:
                break
            bits[k] = buf[pos] != 0
            what[k] = 1
            pos += _1
        elif tag == 2:
            if pos >= end:
                break
            v_2 = U(buf[pos])
            pos += _1
            if v_2 >= _128:
                v_2 &= _127
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
                    v_2 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_2 > _4294967295:
                break
            bits[k] = np.int64((v_2 >> _1) ^ (~(v_2 & _1) + _1))
            what[k] = 1
        elif tag == 3:
            if end - pos < _1:
                break
            bits[k] = np.int64(np.int8((U(buf[pos]))))
            what[k] = 1
            pos += _1
        elif tag == 4:
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
            if v_3 > _65535:
                break
            bits[k] = np.int64((v_3 >> _1) ^ (~(v_3 & _1) + _1))
            what[k] = 1
        elif tag == 5:
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
            bits[k] = np.int64((v_4 >> _1) ^ (~(v_4 & _1) + _1))
            what[k] = 1
        elif tag == 6:
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
            bits[k] = np.int64((v_5 >> _1) ^ (~(v_5 & _1) + _1))
            what[k] = 1
        elif tag == 7:
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
            if v_6 > _4294967295:
                break
            bits[k] = np.int64(v_6)
            what[k] = 1
        elif tag == 8:
            if end - pos < _1:
                break
            bits[k] = np.int64((U(buf[pos])))
            what[k] = 1
            pos += _1
        elif tag == 9:
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
            if v_7 > _65535:
                break
            bits[k] = np.int64(v_7)
            what[k] = 1
        elif tag == 10:
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
            if v_8 > _4294967295:
                break
            bits[k] = np.int64(v_8)
            what[k] = 1
        elif tag == 11:
            if pos >= end:
                break
            v_9 = U(buf[pos])
            pos += _1
            if v_9 >= _128:
                v_9 &= _127
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
                    v_9 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            bits[k] = np.int64(v_9)
            what[k] = 1
        elif tag == 13:
            if end - pos < _4:
                break
            v_10 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
            if v_10 & _2147483647 > _2139095040:
                break
            bits[k] = np.int64(v_10)
            what[k] = 2
            pos += _4
        elif tag == 14:
            if end - pos < _8:
                break
            v_11 = U(buf[pos]) << _56 | U(buf[pos + _1]) << _48 | U(buf[pos + _2]) << _40 | U(buf[pos + _3]) << _32 | U(buf[pos + _4]) << _24 | U(buf[pos + _5]) << _16 | U(buf[pos + _6]) << _8 | U(buf[pos + _7])
            if v_11 & _9223372036854775807 > _9218868437227405312:
                break
            bits[k] = np.int64(v_11)
            what[k] = 3
            pos += _8
        elif tag == 17:
            if pos >= end:
                break
            v_12 = U(buf[pos])
            pos += _1
            if v_12 >= _128:
                v_12 &= _127
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
                    v_12 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_12 & _1 != _0:
                break
            v_12 >>= _1
            if v_12 > end - pos:
                break
            start[k] = pos
            size[k] = v_12
            pos += v_12
            what[k] = 5
        elif tag == 21:
            if depth >= _64:
                break
            if pos >= end:
                break
            v_13 = U(buf[pos])
            pos += _1
            if v_13 >= _128:
                v_13 &= _127
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
                    v_13 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_13 & _1 != _0:
                break
            v_13 >>= _1
            if v_13 > end - pos or v_13 * _2 > end - pos:
                break
            if v_13 > budget:
                break
            budget -= v_13
            at = depth * _3
            stack[at] = left
            stack[at + _1] = inside
            stack[at + _2] = keyed
            depth += _1
            left = v_13
            inside = np.int64(k - first)
            keyed = True
        elif tag == 23:
            if depth >= _64:
                break
            if pos >= end:
                break
            v_14 = U(buf[pos])
            pos += _1
            if v_14 >= _128:
                v_14 &= _127
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
                    v_14 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_14 & _1 != _0:
                break
            v_14 >>= _1
            if v_14 > end - pos or v_14 * _1 > end - pos:
                break
            if v_14 > budget:
                break
            budget -= v_14
            at = depth * _3
            stack[at] = left
            stack[at + _1] = inside
            stack[at + _2] = keyed
            depth += _1
            left = v_14
            inside = np.int64(k - first)
            keyed = False
        elif tag == 24:
            if pos >= end:
                break
            v_15 = U(buf[pos])
            pos += _1
            if v_15 >= _128:
                v_15 &= _127
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
                    v_15 |= (byte & _127) << shift
                    if byte < _128:
                        break
                    shift += _7
                if failed:
                    break
            if v_15 & _1 != _0:
                break
            v_15 >>= _1
            if v_15 > end - pos:
                break
            if not utf8(buf, pos, pos + v_15):
                break
            start[k] = pos
            size[k] = v_15
            pos += v_15
            what[k] = 4
        else:
            break
        k += _1
    return _0, first


@kernel
def scan_message(buf, run_starts, run_stops, starts, stops, runs, reached, wrong):
    n = _0
    for r in range(U(run_starts.shape[0])):
        pos = U(run_starts[r])
        end = U(run_stops[r])
        bad = False
        failed = False
        while pos < end:
            most = pos + _33554432
            stop = pos
            done = False
            while end - stop >= _4:
                tag = U(buf[stop])
                size = U(buf[stop + _1]) << _16 | U(buf[stop + _1 + _1]) << _8 | U(buf[stop + _1 + _2])
                stop += _4
                if stop + size > most:
                    bad = True
                    break
                if tag == _0:
                    done = size == _0
                    bad = not done
                    break
                if size > end - stop:
                    break
                stop += size
            if not done:
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
def decode_message(buf, starts, stops, directions, bad, counts, stack, root_rows_ends, rows_type, rows_opaque_start, rows_opaque_size, row_session_info_name_start, row_session_info_name_size, row_session_info_value_ends, row_session_info_value_parent, row_session_info_value_name_start, row_session_info_value_name_size, row_session_info_value_type, row_session_info_value_what, row_session_info_value_bits, row_session_info_value_start, row_session_info_value_size, row_message_id_value, row_source_message_id_value, row_header_name_start, row_header_name_size, row_header_value_ends, row_header_value_parent, row_header_value_name_start, row_header_value_name_size, row_header_value_type, row_header_value_what, row_header_value_bits, row_header_value_start, row_header_value_size, row_data_name_start, row_data_name_size, row_data_value_ends, row_data_value_parent, row_data_value_name_start, row_data_value_name_size, row_data_value_type, row_data_value_what, row_data_value_bits, row_data_value_start, row_data_value_size, row_payload_data_start, row_payload_data_size, row_address_kind, row_address_value_start, row_address_value_size, row_source_address_kind, row_source_address_value_start, row_source_address_value_size, row_seq_no_current, row_seq_no_maximum, row_xdata_id, row_xdata_data_start, row_xdata_data_size, row_error_value_start, row_error_value_size, row_flag_value, row_version_major, row_version_minor, row_version_branch, row_version_variant):
    n_bad = _0
    n_rows = _0
    n_row_session_info = _0
    n_row_session_info_value = _0
    n_row_message_id = _0
    n_row_source_message_id = _0
    n_row_header = _0
    n_row_header_value = _0
    n_row_data = _0
    n_row_data_value = _0
    n_row_payload = _0
    n_row_address = _0
    n_row_source_address = _0
    n_row_seq_no = _0
    n_row_xdata = _0
    n_row_error = _0
    n_row_flag = _0
    n_row_version = _0
    for i in range(U(starts.shape[0])):
        pos = U(starts[i])
        end = U(stops[i])
        k_rows = n_rows
        k_row_session_info = n_row_session_info
        k_row_session_info_value = n_row_session_info_value
        k_row_message_id = n_row_message_id
        k_row_source_message_id = n_row_source_message_id
        k_row_header = n_row_header
        k_row_header_value = n_row_header_value
        k_row_data = n_row_data
        k_row_data_value = n_row_data_value
        k_row_payload = n_row_payload
        k_row_address = n_row_address
        k_row_source_address = n_row_source_address
        k_row_seq_no = n_row_seq_no
        k_row_xdata = n_row_xdata
        k_row_error = n_row_error
        k_row_flag = n_row_flag
        k_row_version = n_row_version
        good = False
        failed = False
        while True:
            while True:
                if end - pos < _4:
                    failed = True
                    break
                tag = U(buf[pos])
                size = U(buf[pos + _1]) << _16 | U(buf[pos + _1 + _1]) << _8 | U(buf[pos + _1 + _2])
                pos += _4
                if tag == _0:
                    break
                if size > end - pos or k_rows - n_rows >= _65536:
                    failed = True
                    break
                outer = end
                end = pos + size
                rows_type[k_rows] = tag
                rows_opaque_start[k_rows] = 0
                rows_opaque_size[k_rows] = -1
                if tag == _16:
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    if v_1 & _1 != _0:
                        failed = True
                        break
                    v_1 >>= _1
                    if v_1 > end - pos:
                        failed = True
                        break
                    if not utf8(buf, pos, pos + (v_1)):
                        failed = True
                        break
                    row_session_info_name_start[k_row_session_info] = pos
                    row_session_info_name_size[k_row_session_info] = v_1
                    pos += v_1
                    pos, k_row_session_info_value = read_var(buf, pos, end, stack, k_row_session_info_value, row_session_info_value_parent, row_session_info_value_name_start, row_session_info_value_name_size, row_session_info_value_type, row_session_info_value_what, row_session_info_value_bits, row_session_info_value_start, row_session_info_value_size)
                    if pos == _0:
                        failed = True
                        break
                    row_session_info_value_ends[k_row_session_info] = k_row_session_info_value
                    k_row_session_info += _1
                elif tag == _17:
                    if end - pos < _8:
                        failed = True
                        break
                    v_2 = U(buf[pos]) << _56 | U(buf[pos + _1]) << _48 | U(buf[pos + _2]) << _40 | U(buf[pos + _3]) << _32 | U(buf[pos + _4]) << _24 | U(buf[pos + _5]) << _16 | U(buf[pos + _6]) << _8 | U(buf[pos + _7])
                    row_message_id_value[k_row_message_id] = np.int64(v_2)
                    pos += _8
                    k_row_message_id += _1
                elif tag == _18:
                    if end - pos < _8:
                        failed = True
                        break
                    v_3 = U(buf[pos]) << _56 | U(buf[pos + _1]) << _48 | U(buf[pos + _2]) << _40 | U(buf[pos + _3]) << _32 | U(buf[pos + _4]) << _24 | U(buf[pos + _5]) << _16 | U(buf[pos + _6]) << _8 | U(buf[pos + _7])
                    row_source_message_id_value[k_row_source_message_id] = np.int64(v_3)
                    pos += _8
                    k_row_source_message_id += _1
                elif tag == _20:
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    if v_4 & _1 != _0:
                        failed = True
                        break
                    v_4 >>= _1
                    if v_4 > end - pos:
                        failed = True
                        break
                    if not utf8(buf, pos, pos + (v_4)):
                        failed = True
                        break
                    row_header_name_start[k_row_header] = pos
                    row_header_name_size[k_row_header] = v_4
                    pos += v_4
                    pos, k_row_header_value = read_var(buf, pos, end, stack, k_row_header_value, row_header_value_parent, row_header_value_name_start, row_header_value_name_size, row_header_value_type, row_header_value_what, row_header_value_bits, row_header_value_start, row_header_value_size)
                    if pos == _0:
                        failed = True
                        break
                    row_header_value_ends[k_row_header] = k_row_header_value
                    k_row_header += _1
                elif tag == _21:
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    if v_5 & _1 != _0:
                        failed = True
                        break
                    v_5 >>= _1
                    if v_5 > end - pos:
                        failed = True
                        break
                    if not utf8(buf, pos, pos + (v_5)):
                        failed = True
                        break
                    row_data_name_start[k_row_data] = pos
                    row_data_name_size[k_row_data] = v_5
                    pos += v_5
                    pos, k_row_data_value = read_var(buf, pos, end, stack, k_row_data_value, row_data_value_parent, row_data_value_name_start, row_data_value_name_size, row_data_value_type, row_data_value_what, row_data_value_bits, row_data_value_start, row_data_value_size)
                    if pos == _0:
                        failed = True
                        break
                    row_data_value_ends[k_row_data] = k_row_data_value
                    k_row_data += _1
                elif tag == _22:
                    row_payload_data_start[k_row_payload] = pos
                    row_payload_data_size[k_row_payload] = end - pos
                    pos = end
                    k_row_payload += _1
                elif tag == _23:
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    if v_6 > _4294967295:
                        failed = True
                        break
                    row_address_kind[k_row_address] = np.int32((v_6 >> _1) ^ (~(v_6 & _1) + _1))
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    if v_7 & _1 != _0:
                        failed = True
                        break
                    v_7 >>= _1
                    if v_7 > end - pos:
                        failed = True
                        break
                    if not utf8(buf, pos, pos + (v_7)):
                        failed = True
                        break
                    row_address_value_start[k_row_address] = pos
                    row_address_value_size[k_row_address] = v_7
                    pos += v_7
                    k_row_address += _1
                elif tag == _24:
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    if v_8 > _4294967295:
                        failed = True
                        break
                    row_source_address_kind[k_row_source_address] = np.int32((v_8 >> _1) ^ (~(v_8 & _1) + _1))
                    if pos >= end:
                        failed = True
                        break
                    v_9 = U(buf[pos])
                    pos += _1
                    if v_9 >= _128:
                        v_9 &= _127
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
                            v_9 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    if v_9 & _1 != _0:
                        failed = True
                        break
                    v_9 >>= _1
                    if v_9 > end - pos:
                        failed = True
                        break
                    if not utf8(buf, pos, pos + (v_9)):
                        failed = True
                        break
                    row_source_address_value_start[k_row_source_address] = pos
                    row_source_address_value_size[k_row_source_address] = v_9
                    pos += v_9
                    k_row_source_address += _1
                elif tag == _27:
                    if pos >= end:
                        failed = True
                        break
                    v_10 = U(buf[pos])
                    pos += _1
                    if v_10 >= _128:
                        v_10 &= _127
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
                            v_10 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    if v_10 > _4294967295:
                        failed = True
                        break
                    row_seq_no_current[k_row_seq_no] = np.int32((v_10 >> _1) ^ (~(v_10 & _1) + _1))
                    if pos >= end:
                        failed = True
                        break
                    v_11 = U(buf[pos])
                    pos += _1
                    if v_11 >= _128:
                        v_11 &= _127
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
                            v_11 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    if v_11 > _4294967295:
                        failed = True
                        break
                    row_seq_no_maximum[k_row_seq_no] = np.int32((v_11 >> _1) ^ (~(v_11 & _1) + _1))
                    k_row_seq_no += _1
                elif tag == _28:
                    if pos >= end:
                        failed = True
                        break
                    v_12 = U(buf[pos])
                    pos += _1
                    if v_12 >= _128:
                        v_12 &= _127
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
                            v_12 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    if v_12 > _4294967295:
                        failed = True
                        break
                    row_xdata_id[k_row_xdata] = np.int32((v_12 >> _1) ^ (~(v_12 & _1) + _1))
                    row_xdata_data_start[k_row_xdata] = pos
                    row_xdata_data_size[k_row_xdata] = end - pos
                    pos = end
                    k_row_xdata += _1
                elif tag == _29:
                    if not utf8(buf, pos, pos + (end - pos)):
                        failed = True
                        break
                    row_error_value_start[k_row_error] = pos
                    row_error_value_size[k_row_error] = end - pos
                    pos = end
                    k_row_error += _1
                elif tag == _30:
                    if pos >= end:
                        failed = True
                        break
                    v_13 = U(buf[pos])
                    pos += _1
                    if v_13 >= _128:
                        v_13 &= _127
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
                            v_13 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    if v_13 > _4294967295:
                        failed = True
                        break
                    row_flag_value[k_row_flag] = np.int32((v_13 >> _1) ^ (~(v_13 & _1) + _1))
                    k_row_flag += _1
                elif tag == _31:
                    if end - pos < _4:
                        failed = True
                        break
                    v_14 = U(buf[pos])
                    row_version_major[k_row_version] = np.int16(v_14)
                    v_15 = U(buf[pos + _1])
                    row_version_minor[k_row_version] = np.int16(v_15)
                    v_16 = U(buf[pos + _2])
                    row_version_branch[k_row_version] = np.int16(v_16)
                    v_17 = U(buf[pos + _3])
                    row_version_variant[k_row_version] = np.int16(v_17)
                    pos += _4
                    k_row_version += _1
                else:
                    rows_opaque_start[k_rows] = pos
                    rows_opaque_size[k_rows] = size
                    pos = end
                if pos != end:
                    failed = True
                    break
                end = outer
                k_rows += _1
            if failed:
                break
            root_rows_ends[i] = k_rows
            if pos != end:
                break
            good = True
            break
        if good:
            n_rows = k_rows
            n_row_session_info = k_row_session_info
            n_row_session_info_value = k_row_session_info_value
            n_row_message_id = k_row_message_id
            n_row_source_message_id = k_row_source_message_id
            n_row_header = k_row_header
            n_row_header_value = k_row_header_value
            n_row_data = k_row_data
            n_row_data_value = k_row_data_value
            n_row_payload = k_row_payload
            n_row_address = k_row_address
            n_row_source_address = k_row_source_address
            n_row_seq_no = k_row_seq_no
            n_row_xdata = k_row_xdata
            n_row_error = k_row_error
            n_row_flag = k_row_flag
            n_row_version = k_row_version
            continue
        bad[n_bad] = i
        n_bad += _1
    counts[0] = n_rows
    counts[1] = n_row_session_info
    counts[2] = n_row_session_info_value
    counts[3] = n_row_message_id
    counts[4] = n_row_source_message_id
    counts[5] = n_row_header
    counts[6] = n_row_header_value
    counts[7] = n_row_data
    counts[8] = n_row_data_value
    counts[9] = n_row_payload
    counts[10] = n_row_address
    counts[11] = n_row_source_address
    counts[12] = n_row_seq_no
    counts[13] = n_row_xdata
    counts[14] = n_row_error
    counts[15] = n_row_flag
    counts[16] = n_row_version
    return n_bad
