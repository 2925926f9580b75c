"""Kernels of magline, dialect seed. Generated from wirelake.protocols.magline.layout: do not edit.

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
_12 = U(0xc)
_16 = U(0x10)
_18 = U(0x12)
_20 = U(0x14)
_24 = U(0x18)
_32 = U(0x20)
_34 = U(0x22)
_64 = U(0x40)
_96 = U(0x60)
_126 = U(0x7e)
_127 = U(0x7f)
_256 = U(0x100)
_512 = U(0x200)
_771 = U(0x303)
_64515 = U(0xfc03)
_65280 = U(0xff00)
_65281 = U(0xff01)
_65282 = U(0xff02)
_65283 = U(0xff03)
_1048576 = U(0x100000)


@kernel
def scan_frame(buf, run_starts, run_stops, starts, stops, runs, reached, wrong):
    n = _0
    for r in range(U(run_starts.shape[0])):
        pos = U(run_starts[r])
        end = U(run_stops[r])
        bad = False
        failed = False
        while pos < end:
            if end - pos < _16:
                if pos < end and buf[pos] != 126 and buf[pos] != 127:
                    bad = True
                if pos + _1 < end and buf[pos + _1] != 102:
                    bad = True
                break
            const = U(buf[pos])
            if buf[pos + _1] != 102:
                bad = True
                break
            tag = U(buf[pos + _2]) << _8 | U(buf[pos + _2 + _1])
            option_bits = U(buf[pos + _4]) << _8 | U(buf[pos + _4 + _1])
            options_size = U(buf[pos + _6]) << _8 | U(buf[pos + _6 + _1])
            length = U(buf[pos + _12]) << _24 | U(buf[pos + _12 + _1]) << _16 | U(buf[pos + _12 + _2]) << _8 | U(buf[pos + _12 + _3])
            if options_size > length:
                bad = True
                break
            if (option_bits == _0) != (options_size == _0):
                bad = True
                break
            if length > _1048576:
                bad = True
                break
            if tag == _1:
                if const != _127:
                    bad = True
                    break
                if option_bits & _64515 != _0:
                    bad = True
                    break
                if length > _512:
                    bad = True
                    break
                if length - options_size != _64:
                    bad = True
                    break
            elif tag == _2:
                if const != _127:
                    bad = True
                    break
                if option_bits & _65283 != _0:
                    bad = True
                    break
                if length > _512:
                    bad = True
                    break
                if length - options_size != _96:
                    bad = True
                    break
            elif tag == _3:
                if const != _127:
                    bad = True
                    break
                if option_bits & _65280 != _0:
                    bad = True
                    break
                if length - options_size != _8:
                    bad = True
                    break
            elif tag == _4:
                if const != _127:
                    bad = True
                    break
                if option_bits & _65282 != _0:
                    bad = True
                    break
                if length - options_size != _4:
                    bad = True
                    break
            elif tag == _5:
                if const != _127:
                    bad = True
                    break
                if option_bits & _65282 != _0:
                    bad = True
                    break
                if length - options_size != _4:
                    bad = True
                    break
            elif tag == _6:
                if const != _126:
                    bad = True
                    break
                if option_bits & _65283 != _0:
                    bad = True
                    break
                if length - options_size < _20:
                    bad = True
                    break
            elif tag == _7:
                if const != _126:
                    bad = True
                    break
                if option_bits & _65281 != _0:
                    bad = True
                    break
                if length - options_size < _20:
                    bad = True
                    break
            elif tag == _8:
                if const != _126:
                    bad = True
                    break
                if option_bits & _65283 != _0:
                    bad = True
                    break
                if length - options_size < _20:
                    bad = True
                    break
            elif tag == _9:
                if const != _127:
                    bad = True
                    break
                if option_bits & _65282 != _0:
                    bad = True
                    break
                if length - options_size != _4:
                    bad = True
                    break
            else:
                bad = True
                break
            stop = pos + _16 + length
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
def decode_frame(buf, starts, stops, directions, bad, counts, stack, root_seq, root_auth_valid, root_auth_start, root_auth_size, root_reply_to_valid, root_reply_to, root_resume_valid, root_resume_sid_start, root_resume_sid_size, root_resume_binder_start, root_resume_binder_size, root_key_id_valid, root_key_id_start, root_key_id_size, root_alternative, root_syn_random_start, root_syn_random_size, root_syn_public_key_start, root_syn_public_key_size, root_ack_random_start, root_ack_random_size, root_ack_public_key_start, root_ack_public_key_size, root_ack_sealed_sid_start, root_ack_sealed_sid_size, root_err_business_cmd, root_err_error_number, root_pin_ping_number, root_pon_ping_number, root_req_business_cmd, root_req_hmac_start, root_req_hmac_size, root_req_data_start, root_req_data_size, root_rep_business_cmd, root_rep_hmac_start, root_rep_hmac_size, root_rep_data_start, root_rep_data_size, root_psh_business_cmd, root_psh_hmac_start, root_psh_hmac_size, root_psh_data_start, root_psh_data_size, root_fin_reason_number):
    n_bad = _0
    n_root_syn = _0
    n_root_ack = _0
    n_root_err = _0
    n_root_pin = _0
    n_root_pon = _0
    n_root_req = _0
    n_root_rep = _0
    n_root_psh = _0
    n_root_fin = _0
    for i in range(U(starts.shape[0])):
        pos = U(starts[i])
        end = U(stops[i])
        k_root_syn = n_root_syn
        k_root_ack = n_root_ack
        k_root_err = n_root_err
        k_root_pin = n_root_pin
        k_root_pon = n_root_pon
        k_root_req = n_root_req
        k_root_rep = n_root_rep
        k_root_psh = n_root_psh
        k_root_fin = n_root_fin
        good = False
        failed = False
        while True:
            if end - pos < _16:
                break
            if buf[pos + _1] != 102:
                break
            tag = U(buf[pos + _2]) << _8 | U(buf[pos + _2 + _1])
            option_bits = U(buf[pos + _4]) << _8 | U(buf[pos + _4 + _1])
            options_size = U(buf[pos + _6]) << _8 | U(buf[pos + _6 + _1])
            v_1 = U(buf[pos + _8]) << _24 | U(buf[pos + _8 + _1]) << _16 | U(buf[pos + _8 + _2]) << _8 | U(buf[pos + _8 + _3])
            root_seq[i] = np.int64(v_1)
            length = U(buf[pos + _12]) << _24 | U(buf[pos + _12 + _1]) << _16 | U(buf[pos + _12 + _2]) << _8 | U(buf[pos + _12 + _3])
            if length != end - pos - _16:
                break
            pos += _16
            if option_bits & ~_771 != _0:
                break
            if options_size > end - pos:
                break
            area = pos + options_size
            if option_bits & _1 != _0:
                if area - pos < _18:
                    break
                if (U(buf[pos]) << _8 | U(buf[pos + _1])) != _16:
                    break
                pos += _2
                if end - pos < _16:
                    break
                root_auth_start[i] = pos
                root_auth_size[i] = _16
                pos += _16
                root_auth_valid[i] = 1
            else:
                root_auth_valid[i] = 0
                root_auth_start[i] = 0
                root_auth_size[i] = 0
            if option_bits & _2 != _0:
                if area - pos < _6:
                    break
                if (U(buf[pos]) << _8 | U(buf[pos + _1])) != _4:
                    break
                pos += _2
                if end - pos < _4:
                    break
                v_2 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_reply_to[i] = np.int64(v_2)
                pos += _4
                root_reply_to_valid[i] = 1
            else:
                root_reply_to_valid[i] = 0
                root_reply_to[i] = 0
            if option_bits & _256 != _0:
                if area - pos < _34:
                    break
                if (U(buf[pos]) << _8 | U(buf[pos + _1])) != _32:
                    break
                pos += _2
                if end - pos < _32:
                    break
                root_resume_sid_start[i] = pos
                root_resume_sid_size[i] = _16
                root_resume_binder_start[i] = pos + _16
                root_resume_binder_size[i] = _16
                pos += _32
                root_resume_valid[i] = 1
            else:
                root_resume_valid[i] = 0
                root_resume_sid_start[i] = 0
                root_resume_sid_size[i] = 0
                root_resume_binder_start[i] = 0
                root_resume_binder_size[i] = 0
            if option_bits & _512 != _0:
                if area - pos < _10:
                    break
                if (U(buf[pos]) << _8 | U(buf[pos + _1])) != _8:
                    break
                pos += _2
                if end - pos < _8:
                    break
                root_key_id_start[i] = pos
                root_key_id_size[i] = _8
                pos += _8
                root_key_id_valid[i] = 1
            else:
                root_key_id_valid[i] = 0
                root_key_id_start[i] = 0
                root_key_id_size[i] = 0
            if pos != area:
                break
            if tag == _1:
                if end - pos < _64:
                    break
                root_syn_random_start[k_root_syn] = pos
                root_syn_random_size[k_root_syn] = _32
                root_syn_public_key_start[k_root_syn] = pos + _32
                root_syn_public_key_size[k_root_syn] = _32
                pos += _64
                k_root_syn += _1
                root_alternative[i] = 0
            elif tag == _2:
                if end - pos < _96:
                    break
                root_ack_random_start[k_root_ack] = pos
                root_ack_random_size[k_root_ack] = _32
                root_ack_public_key_start[k_root_ack] = pos + _32
                root_ack_public_key_size[k_root_ack] = _32
                root_ack_sealed_sid_start[k_root_ack] = pos + _64
                root_ack_sealed_sid_size[k_root_ack] = _32
                pos += _96
                k_root_ack += _1
                root_alternative[i] = 1
            elif tag == _3:
                if end - pos < _8:
                    break
                v_3 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_err_business_cmd[k_root_err] = np.int64(v_3)
                v_4 = U(buf[pos + _4]) << _24 | U(buf[pos + _4 + _1]) << _16 | U(buf[pos + _4 + _2]) << _8 | U(buf[pos + _4 + _3])
                root_err_error_number[k_root_err] = np.int64(v_4)
                pos += _8
                k_root_err += _1
                root_alternative[i] = 2
            elif tag == _4:
                if end - pos < _4:
                    break
                v_5 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_pin_ping_number[k_root_pin] = np.int64(v_5)
                pos += _4
                k_root_pin += _1
                root_alternative[i] = 3
            elif tag == _5:
                if end - pos < _4:
                    break
                v_6 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_pon_ping_number[k_root_pon] = np.int64(v_6)
                pos += _4
                k_root_pon += _1
                root_alternative[i] = 4
            elif tag == _6:
                if end - pos < _20:
                    break
                v_7 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_req_business_cmd[k_root_req] = np.int64(v_7)
                root_req_hmac_start[k_root_req] = pos + _4
                root_req_hmac_size[k_root_req] = _16
                pos += _20
                root_req_data_start[k_root_req] = pos
                root_req_data_size[k_root_req] = end - pos
                pos = end
                k_root_req += _1
                root_alternative[i] = 5
            elif tag == _7:
                if end - pos < _20:
                    break
                v_8 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_rep_business_cmd[k_root_rep] = np.int64(v_8)
                root_rep_hmac_start[k_root_rep] = pos + _4
                root_rep_hmac_size[k_root_rep] = _16
                pos += _20
                root_rep_data_start[k_root_rep] = pos
                root_rep_data_size[k_root_rep] = end - pos
                pos = end
                k_root_rep += _1
                root_alternative[i] = 6
            elif tag == _8:
                if end - pos < _20:
                    break
                v_9 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_psh_business_cmd[k_root_psh] = np.int64(v_9)
                root_psh_hmac_start[k_root_psh] = pos + _4
                root_psh_hmac_size[k_root_psh] = _16
                pos += _20
                root_psh_data_start[k_root_psh] = pos
                root_psh_data_size[k_root_psh] = end - pos
                pos = end
                k_root_psh += _1
                root_alternative[i] = 7
            elif tag == _9:
                if end - pos < _4:
                    break
                v_10 = U(buf[pos]) << _24 | U(buf[pos + _1]) << _16 | U(buf[pos + _2]) << _8 | U(buf[pos + _3])
                root_fin_reason_number[k_root_fin] = np.int64(v_10)
                pos += _4
                k_root_fin += _1
                root_alternative[i] = 8
            else:
                break
            if pos != end:
                break
            good = True
            break
        if good:
            n_root_syn = k_root_syn
            n_root_ack = k_root_ack
            n_root_err = k_root_err
            n_root_pin = k_root_pin
            n_root_pon = k_root_pon
            n_root_req = k_root_req
            n_root_rep = k_root_rep
            n_root_psh = k_root_psh
            n_root_fin = k_root_fin
            continue
        bad[n_bad] = i
        n_bad += _1
    counts[0] = n_root_syn
    counts[1] = n_root_ack
    counts[2] = n_root_err
    counts[3] = n_root_pin
    counts[4] = n_root_pon
    counts[5] = n_root_req
    counts[6] = n_root_rep
    counts[7] = n_root_psh
    counts[8] = n_root_fin
    return n_bad
