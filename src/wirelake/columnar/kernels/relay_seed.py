"""Kernels of relay, dialect seed. Generated from wirelake.protocols.tny.layout: do not edit.

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
_10 = U(0xa)
_13 = U(0xd)
_15 = U(0xf)
_16 = U(0x10)
_17 = U(0x11)
_18 = U(0x12)
_19 = U(0x13)
_20 = U(0x14)
_21 = U(0x15)
_24 = U(0x18)
_26 = U(0x1a)
_32 = U(0x20)
_40 = U(0x28)
_48 = U(0x30)
_56 = U(0x38)
_63 = U(0x3f)
_80 = U(0x50)
_82 = U(0x52)
_88 = U(0x58)
_127 = U(0x7f)
_128 = U(0x80)
_2097152 = U(0x200000)
_4294967295 = U(0xffffffff)


@kernel
def scan_relay_packet(buf, run_starts, run_stops, starts, stops, runs, reached, wrong):
    n = _0
    for r in range(U(run_starts.shape[0])):
        pos = U(run_starts[r])
        end = U(run_stops[r])
        bad = False
        failed = False
        while pos < end:
            if end - pos < _7:
                if pos < end and buf[pos] != 114:
                    bad = True
                if pos + _1 < end and buf[pos + _1] != 112:
                    bad = True
                if pos + _2 < end and buf[pos + _2] != 107:
                    bad = True
                break
            if buf[pos] != 114 or buf[pos + _1] != 112 or buf[pos + _2] != 107:
                bad = True
                break
            length = U(buf[pos + _3 + _3]) << _24 | U(buf[pos + _3 + _2]) << _16 | U(buf[pos + _3 + _1]) << _8 | U(buf[pos + _3])
            if length < _13 or length > _2097152:
                bad = True
                break
            stop = pos + _7 + length
            if stop > end:
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
def decode_relay_packet(buf, starts, stops, directions, bad, counts, stack, root_id, root_reserved, root_time, root_alternative, root_link_open_service_start, root_link_open_service_size, root_link_open_instance, root_link_open_key_start, root_link_open_key_size, root_link_open_service_type, root_link_open_service_type_valid, root_link_opened_result, root_tunnel_connect_ip_start, root_tunnel_connect_ip_size, root_tunnel_connect_port, root_tunnel_connect_instance_id, root_tunnel_connect_tunnel_id, root_tunnel_connected_result, root_tunnel_connected_instance_id, root_tunnel_connected_tunnel_id, root_tunnel_disconnect_instance_id, root_tunnel_disconnect_tunnel_id, root_tunnel_switch_link_instance_id, root_tunnel_switch_link_tunnel_id, root_tunnel_relay_instance_id, root_tunnel_relay_tunnel_id, root_tunnel_relay_message_id, root_tunnel_relay_message_reserved, root_tunnel_relay_message_line, root_tunnel_relay_message_mode, root_tunnel_relay_message_protocol, root_tunnel_relay_message_code, root_tunnel_relay_message_to_message, root_tunnel_relay_message_time, root_tunnel_relay_message_forward_header_valid, root_tunnel_relay_message_forward_header_start, root_tunnel_relay_message_forward_header_size, root_tunnel_relay_message_body_valid, root_tunnel_relay_message_body_start, root_tunnel_relay_message_body_size):
    n_bad = _0
    n_root_link_open = _0
    n_root_link_opened = _0
    n_root_tunnel_connect = _0
    n_root_tunnel_connected = _0
    n_root_tunnel_disconnect = _0
    n_root_tunnel_switch_link = _0
    n_root_tunnel_relay = _0
    for i in range(U(starts.shape[0])):
        pos = U(starts[i])
        end = U(stops[i])
        k_root_link_open = n_root_link_open
        k_root_link_opened = n_root_link_opened
        k_root_tunnel_connect = n_root_tunnel_connect
        k_root_tunnel_connected = n_root_tunnel_connected
        k_root_tunnel_disconnect = n_root_tunnel_disconnect
        k_root_tunnel_switch_link = n_root_tunnel_switch_link
        k_root_tunnel_relay = n_root_tunnel_relay
        good = False
        failed = False
        while True:
            if end - pos < _7:
                break
            if buf[pos] != 114 or buf[pos + _1] != 112 or buf[pos + _2] != 107:
                break
            length = U(buf[pos + _3 + _3]) << _24 | U(buf[pos + _3 + _2]) << _16 | U(buf[pos + _3 + _1]) << _8 | U(buf[pos + _3])
            if length != end - pos - _7:
                break
            pos += _7
            if end - pos < _13:
                break
            v_1 = U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
            root_id[i] = np.int32(np.int32(v_1))
            bits_2 = U(buf[pos + _4])
            bit_reserved = (bits_2 >> _5) & _7
            root_reserved[i] = bit_reserved
            bit_mark = (bits_2 >> _4) & _1
            bit_sub_id = (bits_2) & _15
            v_3 = U(buf[pos + _5 + _7]) << _56 | U(buf[pos + _5 + _6]) << _48 | U(buf[pos + _5 + _5]) << _40 | U(buf[pos + _5 + _4]) << _32 | U(buf[pos + _5 + _3]) << _24 | U(buf[pos + _5 + _2]) << _16 | U(buf[pos + _5 + _1]) << _8 | U(buf[pos + _5])
            root_time[i] = np.int64(v_3)
            pos += _13
            tag = bit_mark << _4 | bit_sub_id
            if tag == _1:
                root_link_open_service_start[k_root_link_open] = 0
                root_link_open_service_size[k_root_link_open] = 0
                root_link_open_instance[k_root_link_open] = 0
                root_link_open_key_start[k_root_link_open] = 0
                root_link_open_key_size[k_root_link_open] = 0
                root_link_open_service_type_valid[k_root_link_open] = 0
                root_link_open_service_type[k_root_link_open] = 0
                while pos < end:
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
                    key_4 = v_5
                    if key_4 == _10:
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
                        if v_6 > end - pos:
                            failed = True
                            break
                        if not utf8(buf, pos, pos + (v_6)):
                            failed = True
                            break
                        root_link_open_service_start[k_root_link_open] = pos
                        root_link_open_service_size[k_root_link_open] = v_6
                        pos += v_6
                    elif key_4 == _17:
                        if end - pos < _8:
                            failed = True
                            break
                        v_7 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_link_open_instance[k_root_link_open] = np.int64(v_7)
                        pos += _8
                    elif key_4 == _26:
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
                        if v_8 > end - pos:
                            failed = True
                            break
                        if not utf8(buf, pos, pos + (v_8)):
                            failed = True
                            break
                        root_link_open_key_start[k_root_link_open] = pos
                        root_link_open_key_size[k_root_link_open] = v_8
                        pos += v_8
                    elif key_4 == _32:
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
                        root_link_open_service_type[k_root_link_open] = np.int32(np.int32(v_9))
                        root_link_open_service_type_valid[k_root_link_open] = 1
                    else:
                        failed = True
                        break
                if failed:
                    break
                k_root_link_open += _1
                root_alternative[i] = 0
            elif tag == _2:
                root_link_opened_result[k_root_link_opened] = 0
                while pos < end:
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
                    key_10 = v_11
                    if key_10 == _8:
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
                        root_link_opened_result[k_root_link_opened] = v_12 != _0
                    else:
                        failed = True
                        break
                if failed:
                    break
                k_root_link_opened += _1
                root_alternative[i] = 1
            elif tag == _3:
                while pos < end:
                    if pos >= end:
                        failed = True
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
                            failed = True
                            break
                    key_13 = v_14
                    failed = True
                    break
                if failed:
                    break
                root_alternative[i] = 2
            elif tag == _5:
                while pos < end:
                    if pos >= end:
                        failed = True
                        break
                    v_16 = U(buf[pos])
                    pos += _1
                    if v_16 >= _128:
                        v_16 &= _127
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
                            v_16 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    key_15 = v_16
                    failed = True
                    break
                if failed:
                    break
                root_alternative[i] = 3
            elif tag == _6:
                while pos < end:
                    if pos >= end:
                        failed = True
                        break
                    v_18 = U(buf[pos])
                    pos += _1
                    if v_18 >= _128:
                        v_18 &= _127
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
                            v_18 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    key_17 = v_18
                    failed = True
                    break
                if failed:
                    break
                root_alternative[i] = 4
            elif tag == _17:
                root_tunnel_connect_ip_start[k_root_tunnel_connect] = 0
                root_tunnel_connect_ip_size[k_root_tunnel_connect] = 0
                root_tunnel_connect_port[k_root_tunnel_connect] = 0
                root_tunnel_connect_instance_id[k_root_tunnel_connect] = 0
                root_tunnel_connect_tunnel_id[k_root_tunnel_connect] = 0
                while pos < end:
                    if pos >= end:
                        failed = True
                        break
                    v_20 = U(buf[pos])
                    pos += _1
                    if v_20 >= _128:
                        v_20 &= _127
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
                            v_20 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    key_19 = v_20
                    if key_19 == _82:
                        if pos >= end:
                            failed = True
                            break
                        v_21 = U(buf[pos])
                        pos += _1
                        if v_21 >= _128:
                            v_21 &= _127
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
                                v_21 |= (byte & _127) << shift
                                if byte < _128:
                                    break
                                shift += _7
                            if failed:
                                failed = True
                                break
                        if v_21 > end - pos:
                            failed = True
                            break
                        if v_21 != _0 and v_21 != _4 and v_21 != _16:
                            failed = True
                            break
                        root_tunnel_connect_ip_start[k_root_tunnel_connect] = pos
                        root_tunnel_connect_ip_size[k_root_tunnel_connect] = v_21
                        pos += v_21
                    elif key_19 == _88:
                        if pos >= end:
                            failed = True
                            break
                        v_22 = U(buf[pos])
                        pos += _1
                        if v_22 >= _128:
                            v_22 &= _127
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
                                v_22 |= (byte & _127) << shift
                                if byte < _128:
                                    break
                                shift += _7
                            if failed:
                                failed = True
                                break
                        root_tunnel_connect_port[k_root_tunnel_connect] = np.int32(np.int32(v_22))
                    elif key_19 == _9:
                        if end - pos < _8:
                            failed = True
                            break
                        v_23 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_connect_instance_id[k_root_tunnel_connect] = np.int64(v_23)
                        pos += _8
                    elif key_19 == _17:
                        if end - pos < _8:
                            failed = True
                            break
                        v_24 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_connect_tunnel_id[k_root_tunnel_connect] = np.int64(v_24)
                        pos += _8
                    else:
                        failed = True
                        break
                if failed:
                    break
                k_root_tunnel_connect += _1
                root_alternative[i] = 5
            elif tag == _18:
                root_tunnel_connected_result[k_root_tunnel_connected] = 0
                root_tunnel_connected_instance_id[k_root_tunnel_connected] = 0
                root_tunnel_connected_tunnel_id[k_root_tunnel_connected] = 0
                while pos < end:
                    if pos >= end:
                        failed = True
                        break
                    v_26 = U(buf[pos])
                    pos += _1
                    if v_26 >= _128:
                        v_26 &= _127
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
                            v_26 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    key_25 = v_26
                    if key_25 == _80:
                        if pos >= end:
                            failed = True
                            break
                        v_27 = U(buf[pos])
                        pos += _1
                        if v_27 >= _128:
                            v_27 &= _127
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
                                v_27 |= (byte & _127) << shift
                                if byte < _128:
                                    break
                                shift += _7
                            if failed:
                                failed = True
                                break
                        root_tunnel_connected_result[k_root_tunnel_connected] = v_27 != _0
                    elif key_25 == _9:
                        if end - pos < _8:
                            failed = True
                            break
                        v_28 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_connected_instance_id[k_root_tunnel_connected] = np.int64(v_28)
                        pos += _8
                    elif key_25 == _17:
                        if end - pos < _8:
                            failed = True
                            break
                        v_29 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_connected_tunnel_id[k_root_tunnel_connected] = np.int64(v_29)
                        pos += _8
                    else:
                        failed = True
                        break
                if failed:
                    break
                k_root_tunnel_connected += _1
                root_alternative[i] = 6
            elif tag == _19:
                root_tunnel_disconnect_instance_id[k_root_tunnel_disconnect] = 0
                root_tunnel_disconnect_tunnel_id[k_root_tunnel_disconnect] = 0
                while pos < end:
                    if pos >= end:
                        failed = True
                        break
                    v_31 = U(buf[pos])
                    pos += _1
                    if v_31 >= _128:
                        v_31 &= _127
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
                            v_31 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    key_30 = v_31
                    if key_30 == _9:
                        if end - pos < _8:
                            failed = True
                            break
                        v_32 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_disconnect_instance_id[k_root_tunnel_disconnect] = np.int64(v_32)
                        pos += _8
                    elif key_30 == _17:
                        if end - pos < _8:
                            failed = True
                            break
                        v_33 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_disconnect_tunnel_id[k_root_tunnel_disconnect] = np.int64(v_33)
                        pos += _8
                    else:
                        failed = True
                        break
                if failed:
                    break
                k_root_tunnel_disconnect += _1
                root_alternative[i] = 7
            elif tag == _20:
                root_tunnel_switch_link_instance_id[k_root_tunnel_switch_link] = 0
                root_tunnel_switch_link_tunnel_id[k_root_tunnel_switch_link] = 0
                while pos < end:
                    if pos >= end:
                        failed = True
                        break
                    v_35 = U(buf[pos])
                    pos += _1
                    if v_35 >= _128:
                        v_35 &= _127
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
                            v_35 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            failed = True
                            break
                    key_34 = v_35
                    if key_34 == _9:
                        if end - pos < _8:
                            failed = True
                            break
                        v_36 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_switch_link_instance_id[k_root_tunnel_switch_link] = np.int64(v_36)
                        pos += _8
                    elif key_34 == _17:
                        if end - pos < _8:
                            failed = True
                            break
                        v_37 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                        root_tunnel_switch_link_tunnel_id[k_root_tunnel_switch_link] = np.int64(v_37)
                        pos += _8
                    else:
                        failed = True
                        break
                if failed:
                    break
                k_root_tunnel_switch_link += _1
                root_alternative[i] = 8
            elif tag == _21:
                if end - pos < _16:
                    break
                v_38 = U(buf[pos + _7]) << _56 | U(buf[pos + _6]) << _48 | U(buf[pos + _5]) << _40 | U(buf[pos + _4]) << _32 | U(buf[pos + _3]) << _24 | U(buf[pos + _2]) << _16 | U(buf[pos + _1]) << _8 | U(buf[pos])
                root_tunnel_relay_instance_id[k_root_tunnel_relay] = np.int64(v_38)
                v_39 = U(buf[pos + _8 + _7]) << _56 | U(buf[pos + _8 + _6]) << _48 | U(buf[pos + _8 + _5]) << _40 | U(buf[pos + _8 + _4]) << _32 | U(buf[pos + _8 + _3]) << _24 | U(buf[pos + _8 + _2]) << _16 | U(buf[pos + _8 + _1]) << _8 | U(buf[pos + _8])
                root_tunnel_relay_tunnel_id[k_root_tunnel_relay] = np.int64(v_39)
                pos += _16
                if pos >= end:
                    break
                v_40 = U(buf[pos])
                pos += _1
                if v_40 >= _128:
                    v_40 &= _127
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
                        v_40 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                root_tunnel_relay_message_id[k_root_tunnel_relay] = np.int64(v_40)
                if end - pos < _1:
                    break
                bits_41 = U(buf[pos])
                bit_reserved = (bits_41 >> _7) & _1
                root_tunnel_relay_message_reserved[k_root_tunnel_relay] = bit_reserved
                bit_has_forward_header = (bits_41 >> _6) & _1
                bit_line = (bits_41 >> _3) & _7
                root_tunnel_relay_message_line[k_root_tunnel_relay] = bit_line
                bit_has_body = (bits_41 >> _2) & _1
                bit_mode = (bits_41) & _3
                if bit_mode != _0 and bit_mode != _1 and bit_mode != _2:
                    break
                root_tunnel_relay_message_mode[k_root_tunnel_relay] = bit_mode
                pos += _1
                if pos >= end:
                    break
                v_42 = U(buf[pos])
                pos += _1
                if v_42 >= _128:
                    v_42 &= _127
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
                        v_42 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                if v_42 > _4294967295:
                    break
                root_tunnel_relay_message_protocol[k_root_tunnel_relay] = np.int32(np.int32(v_42))
                if pos >= end:
                    break
                v_43 = U(buf[pos])
                pos += _1
                if v_43 >= _128:
                    v_43 &= _127
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
                        v_43 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                if v_43 > _4294967295:
                    break
                root_tunnel_relay_message_code[k_root_tunnel_relay] = np.int32(np.int32(v_43))
                if pos >= end:
                    break
                v_44 = U(buf[pos])
                pos += _1
                if v_44 >= _128:
                    v_44 &= _127
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
                        v_44 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                root_tunnel_relay_message_to_message[k_root_tunnel_relay] = np.int64(v_44)
                if pos >= end:
                    break
                v_45 = U(buf[pos])
                pos += _1
                if v_45 >= _128:
                    v_45 &= _127
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
                        v_45 |= (byte & _127) << shift
                        if byte < _128:
                            break
                        shift += _7
                    if failed:
                        break
                root_tunnel_relay_message_time[k_root_tunnel_relay] = np.int64(v_45)
                if bit_has_forward_header != _0:
                    if pos >= end:
                        break
                    v_46 = U(buf[pos])
                    pos += _1
                    if v_46 >= _128:
                        v_46 &= _127
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
                            v_46 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            break
                    if v_46 > end - pos:
                        break
                    root_tunnel_relay_message_forward_header_start[k_root_tunnel_relay] = pos
                    root_tunnel_relay_message_forward_header_size[k_root_tunnel_relay] = v_46
                    pos += v_46
                    root_tunnel_relay_message_forward_header_valid[k_root_tunnel_relay] = 1
                else:
                    root_tunnel_relay_message_forward_header_valid[k_root_tunnel_relay] = 0
                    root_tunnel_relay_message_forward_header_start[k_root_tunnel_relay] = 0
                    root_tunnel_relay_message_forward_header_size[k_root_tunnel_relay] = 0
                if bit_has_body != _0:
                    if pos >= end:
                        break
                    v_47 = U(buf[pos])
                    pos += _1
                    if v_47 >= _128:
                        v_47 &= _127
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
                            v_47 |= (byte & _127) << shift
                            if byte < _128:
                                break
                            shift += _7
                        if failed:
                            break
                    if v_47 > end - pos:
                        break
                    root_tunnel_relay_message_body_start[k_root_tunnel_relay] = pos
                    root_tunnel_relay_message_body_size[k_root_tunnel_relay] = v_47
                    pos += v_47
                    root_tunnel_relay_message_body_valid[k_root_tunnel_relay] = 1
                else:
                    root_tunnel_relay_message_body_valid[k_root_tunnel_relay] = 0
                    root_tunnel_relay_message_body_start[k_root_tunnel_relay] = 0
                    root_tunnel_relay_message_body_size[k_root_tunnel_relay] = 0
                k_root_tunnel_relay += _1
                root_alternative[i] = 9
            else:
                break
            if pos != end:
                break
            good = True
            break
        if good:
            n_root_link_open = k_root_link_open
            n_root_link_opened = k_root_link_opened
            n_root_tunnel_connect = k_root_tunnel_connect
            n_root_tunnel_connected = k_root_tunnel_connected
            n_root_tunnel_disconnect = k_root_tunnel_disconnect
            n_root_tunnel_switch_link = k_root_tunnel_switch_link
            n_root_tunnel_relay = k_root_tunnel_relay
            continue
        bad[n_bad] = i
        n_bad += _1
    counts[0] = n_root_link_open
    counts[1] = n_root_link_opened
    counts[2] = n_root_tunnel_connect
    counts[3] = n_root_tunnel_connected
    counts[4] = n_root_tunnel_disconnect
    counts[5] = n_root_tunnel_switch_link
    counts[6] = n_root_tunnel_relay
    return n_bad
