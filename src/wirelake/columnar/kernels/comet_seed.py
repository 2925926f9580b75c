"""Kernels of comet, dialect seed. Generated from wirelake.protocols.comet.layout: do not edit.

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
_13 = U(0xd)
_16 = U(0x10)
_24 = U(0x18)
_32 = U(0x20)
_40 = U(0x28)
_48 = U(0x30)
_56 = U(0x38)
_65535 = U(0xffff)


@kernel
def scan_frame(buf, run_starts, run_stops, starts, stops, runs, reached, wrong):
    n = _0
    for r in range(U(run_starts.shape[0])):
        pos = U(run_starts[r])
        end = U(run_stops[r])
        bad = False
        failed = False
        while pos < end:
            if end - pos < _2:
                break
            length = U(buf[pos]) << _8 | U(buf[pos + _1])
            if length < _1 or length > _65535:
                bad = True
                break
            stop = pos + _2 + length
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
def decode_frame(buf, starts, stops, directions, bad, counts, stack, root_alternative, root_auth_client_id_start, root_auth_client_id_size, root_auth_token_start, root_auth_token_size, root_exchange_key_secret_key_start, root_exchange_key_secret_key_size, root_subscribe_topics_ends, root_subscribe_topics_item_start, root_subscribe_topics_item_size, root_unsubscribe_topics_ends, root_unsubscribe_topics_item_start, root_unsubscribe_topics_item_size, root_message_ack_msg_ids_ends, root_message_ack_msg_ids_item_start, root_message_ack_msg_ids_item_size, root_report_environ_network_type, root_report_environ_isp, root_report_environ_phone_type_start, root_report_environ_phone_type_size, root_report_environ_extra_ends, root_report_environ_extra_item_start, root_report_environ_extra_item_size, root_error_error_code, root_error_reason_start, root_error_reason_size, root_auth_success_encrypt_key_start, root_auth_success_encrypt_key_size, root_topic_list_topics_ends, root_topic_list_topics_item_start, root_topic_list_topics_item_size, root_message_list_messages_ends, root_message_list_messages_item_msg_type, root_message_list_messages_item_msg_id_start, root_message_list_messages_item_msg_id_size, root_message_list_messages_item_content_start, root_message_list_messages_item_content_size, root_message_list_messages_item_ts, root_message_msg_type, root_message_msg_id_start, root_message_msg_id_size, root_message_content_start, root_message_content_size, root_message_ts):
    n_bad = _0
    n_root_auth = _0
    n_root_exchange_key = _0
    n_root_subscribe = _0
    n_root_subscribe_topics = _0
    n_root_unsubscribe = _0
    n_root_unsubscribe_topics = _0
    n_root_message_ack = _0
    n_root_message_ack_msg_ids = _0
    n_root_report_environ = _0
    n_root_report_environ_extra = _0
    n_root_error = _0
    n_root_auth_success = _0
    n_root_topic_list = _0
    n_root_topic_list_topics = _0
    n_root_message_list = _0
    n_root_message_list_messages = _0
    n_root_message = _0
    for i in range(U(starts.shape[0])):
        pos = U(starts[i])
        end = U(stops[i])
        k_root_auth = n_root_auth
        k_root_exchange_key = n_root_exchange_key
        k_root_subscribe = n_root_subscribe
        k_root_subscribe_topics = n_root_subscribe_topics
        k_root_unsubscribe = n_root_unsubscribe
        k_root_unsubscribe_topics = n_root_unsubscribe_topics
        k_root_message_ack = n_root_message_ack
        k_root_message_ack_msg_ids = n_root_message_ack_msg_ids
        k_root_report_environ = n_root_report_environ
        k_root_report_environ_extra = n_root_report_environ_extra
        k_root_error = n_root_error
        k_root_auth_success = n_root_auth_success
        k_root_topic_list = n_root_topic_list
        k_root_topic_list_topics = n_root_topic_list_topics
        k_root_message_list = n_root_message_list
        k_root_message_list_messages = n_root_message_list_messages
        k_root_message = n_root_message
        good = False
        failed = False
        while True:
            if end - pos < _2:
                break
            length = U(buf[pos]) << _8 | U(buf[pos + _1])
            if length != end - pos - _2:
                break
            pos += _2
            if end - pos < _1:
                break
            tag = U(buf[pos])
            pos += _1
            if tag == _0 and directions[i] == 0:
                if end - pos < _2:
                    break
                n_1 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_1 > end - pos:
                    break
                root_auth_client_id_start[k_root_auth] = pos
                root_auth_client_id_size[k_root_auth] = n_1
                pos += n_1
                if end - pos < _2:
                    break
                n_2 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_2 > end - pos:
                    break
                root_auth_token_start[k_root_auth] = pos
                root_auth_token_size[k_root_auth] = n_2
                pos += n_2
                k_root_auth += _1
                root_alternative[i] = 0
            elif tag == _1 and directions[i] == 0:
                if end - pos < _2:
                    break
                n_3 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_3 > end - pos:
                    break
                root_exchange_key_secret_key_start[k_root_exchange_key] = pos
                root_exchange_key_secret_key_size[k_root_exchange_key] = n_3
                pos += n_3
                k_root_exchange_key += _1
                root_alternative[i] = 1
            elif tag == _2 and directions[i] == 0:
                root_alternative[i] = 2
            elif tag == _3 and directions[i] == 0:
                if end - pos < _1:
                    break
                n_4 = U(buf[pos])
                pos += _1
                if n_4 > end - pos or n_4 * _2 > end - pos:
                    break
                for _ in range(n_4):
                    if end - pos < _2:
                        failed = True
                        break
                    n_5 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_5 > end - pos:
                        failed = True
                        break
                    root_subscribe_topics_item_start[k_root_subscribe_topics] = pos
                    root_subscribe_topics_item_size[k_root_subscribe_topics] = n_5
                    pos += n_5
                    k_root_subscribe_topics += _1
                if failed:
                    break
                root_subscribe_topics_ends[k_root_subscribe] = k_root_subscribe_topics
                k_root_subscribe += _1
                root_alternative[i] = 3
            elif tag == _4 and directions[i] == 0:
                if end - pos < _1:
                    break
                n_6 = U(buf[pos])
                pos += _1
                if n_6 > end - pos or n_6 * _2 > end - pos:
                    break
                for _ in range(n_6):
                    if end - pos < _2:
                        failed = True
                        break
                    n_7 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_7 > end - pos:
                        failed = True
                        break
                    root_unsubscribe_topics_item_start[k_root_unsubscribe_topics] = pos
                    root_unsubscribe_topics_item_size[k_root_unsubscribe_topics] = n_7
                    pos += n_7
                    k_root_unsubscribe_topics += _1
                if failed:
                    break
                root_unsubscribe_topics_ends[k_root_unsubscribe] = k_root_unsubscribe_topics
                k_root_unsubscribe += _1
                root_alternative[i] = 4
            elif tag == _5 and directions[i] == 0:
                root_alternative[i] = 5
            elif tag == _6 and directions[i] == 0:
                root_alternative[i] = 6
            elif tag == _7 and directions[i] == 0:
                if end - pos < _1:
                    break
                n_8 = U(buf[pos])
                pos += _1
                if n_8 > end - pos or n_8 * _2 > end - pos:
                    break
                for _ in range(n_8):
                    if end - pos < _2:
                        failed = True
                        break
                    n_9 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_9 > end - pos:
                        failed = True
                        break
                    root_message_ack_msg_ids_item_start[k_root_message_ack_msg_ids] = pos
                    root_message_ack_msg_ids_item_size[k_root_message_ack_msg_ids] = n_9
                    pos += n_9
                    k_root_message_ack_msg_ids += _1
                if failed:
                    break
                root_message_ack_msg_ids_ends[k_root_message_ack] = k_root_message_ack_msg_ids
                k_root_message_ack += _1
                root_alternative[i] = 7
            elif tag == _8 and directions[i] == 0:
                if end - pos < _2:
                    break
                v_10 = U(buf[pos])
                root_report_environ_network_type[k_root_report_environ] = np.int16(v_10)
                v_11 = U(buf[pos + _1])
                root_report_environ_isp[k_root_report_environ] = np.int16(v_11)
                pos += _2
                if end - pos < _2:
                    break
                n_12 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_12 > end - pos:
                    break
                root_report_environ_phone_type_start[k_root_report_environ] = pos
                root_report_environ_phone_type_size[k_root_report_environ] = n_12
                pos += n_12
                if end - pos < _1:
                    break
                n_13 = U(buf[pos])
                pos += _1
                if n_13 > end - pos or n_13 * _2 > end - pos:
                    break
                for _ in range(n_13):
                    if end - pos < _2:
                        failed = True
                        break
                    n_14 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_14 > end - pos:
                        failed = True
                        break
                    root_report_environ_extra_item_start[k_root_report_environ_extra] = pos
                    root_report_environ_extra_item_size[k_root_report_environ_extra] = n_14
                    pos += n_14
                    k_root_report_environ_extra += _1
                if failed:
                    break
                root_report_environ_extra_ends[k_root_report_environ] = k_root_report_environ_extra
                k_root_report_environ += _1
                root_alternative[i] = 8
            elif tag == _0 and directions[i] == 1:
                root_alternative[i] = 9
            elif tag == _1 and directions[i] == 1:
                if end - pos < _1:
                    break
                v_15 = U(buf[pos])
                root_error_error_code[k_root_error] = np.int16(v_15)
                pos += _1
                if end - pos < _2:
                    break
                n_16 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_16 > end - pos:
                    break
                root_error_reason_start[k_root_error] = pos
                root_error_reason_size[k_root_error] = n_16
                pos += n_16
                k_root_error += _1
                root_alternative[i] = 10
            elif tag == _2 and directions[i] == 1:
                if end - pos < _2:
                    break
                n_17 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_17 > end - pos:
                    break
                root_auth_success_encrypt_key_start[k_root_auth_success] = pos
                root_auth_success_encrypt_key_size[k_root_auth_success] = n_17
                pos += n_17
                k_root_auth_success += _1
                root_alternative[i] = 11
            elif tag == _3 and directions[i] == 1:
                if end - pos < _1:
                    break
                n_18 = U(buf[pos])
                pos += _1
                if n_18 > end - pos or n_18 * _2 > end - pos:
                    break
                for _ in range(n_18):
                    if end - pos < _2:
                        failed = True
                        break
                    n_19 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_19 > end - pos:
                        failed = True
                        break
                    root_topic_list_topics_item_start[k_root_topic_list_topics] = pos
                    root_topic_list_topics_item_size[k_root_topic_list_topics] = n_19
                    pos += n_19
                    k_root_topic_list_topics += _1
                if failed:
                    break
                root_topic_list_topics_ends[k_root_topic_list] = k_root_topic_list_topics
                k_root_topic_list += _1
                root_alternative[i] = 12
            elif tag == _4 and directions[i] == 1:
                if end - pos < _1:
                    break
                n_20 = U(buf[pos])
                pos += _1
                if n_20 > end - pos or n_20 * _13 > end - pos:
                    break
                for _ in range(n_20):
                    if end - pos < _1:
                        failed = True
                        break
                    v_21 = U(buf[pos])
                    root_message_list_messages_item_msg_type[k_root_message_list_messages] = np.int16(v_21)
                    pos += _1
                    if end - pos < _2:
                        failed = True
                        break
                    n_22 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_22 > end - pos:
                        failed = True
                        break
                    root_message_list_messages_item_msg_id_start[k_root_message_list_messages] = pos
                    root_message_list_messages_item_msg_id_size[k_root_message_list_messages] = n_22
                    pos += n_22
                    if end - pos < _2:
                        failed = True
                        break
                    n_23 = U(buf[pos]) << _8 | U(buf[pos + _1])
                    pos += _2
                    if n_23 > end - pos:
                        failed = True
                        break
                    root_message_list_messages_item_content_start[k_root_message_list_messages] = pos
                    root_message_list_messages_item_content_size[k_root_message_list_messages] = n_23
                    pos += n_23
                    if end - pos < _8:
                        failed = True
                        break
                    v_24 = U(buf[pos]) << _56 | U(buf[pos + _1]) << _48 | U(buf[pos + _2]) << _40 | U(buf[pos + _3]) << _32 | U(buf[pos + _4]) << _24 | U(buf[pos + _5]) << _16 | U(buf[pos + _6]) << _8 | U(buf[pos + _7])
                    root_message_list_messages_item_ts[k_root_message_list_messages] = np.int64(v_24)
                    pos += _8
                    k_root_message_list_messages += _1
                if failed:
                    break
                root_message_list_messages_ends[k_root_message_list] = k_root_message_list_messages
                k_root_message_list += _1
                root_alternative[i] = 13
            elif tag == _5 and directions[i] == 1:
                if end - pos < _1:
                    break
                v_25 = U(buf[pos])
                root_message_msg_type[k_root_message] = np.int16(v_25)
                pos += _1
                if end - pos < _2:
                    break
                n_26 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_26 > end - pos:
                    break
                root_message_msg_id_start[k_root_message] = pos
                root_message_msg_id_size[k_root_message] = n_26
                pos += n_26
                if end - pos < _2:
                    break
                n_27 = U(buf[pos]) << _8 | U(buf[pos + _1])
                pos += _2
                if n_27 > end - pos:
                    break
                root_message_content_start[k_root_message] = pos
                root_message_content_size[k_root_message] = n_27
                pos += n_27
                if end - pos < _8:
                    break
                v_28 = U(buf[pos]) << _56 | U(buf[pos + _1]) << _48 | U(buf[pos + _2]) << _40 | U(buf[pos + _3]) << _32 | U(buf[pos + _4]) << _24 | U(buf[pos + _5]) << _16 | U(buf[pos + _6]) << _8 | U(buf[pos + _7])
                root_message_ts[k_root_message] = np.int64(v_28)
                pos += _8
                k_root_message += _1
                root_alternative[i] = 14
            else:
                break
            if pos != end:
                break
            good = True
            break
        if good:
            n_root_auth = k_root_auth
            n_root_exchange_key = k_root_exchange_key
            n_root_subscribe = k_root_subscribe
            n_root_subscribe_topics = k_root_subscribe_topics
            n_root_unsubscribe = k_root_unsubscribe
            n_root_unsubscribe_topics = k_root_unsubscribe_topics
            n_root_message_ack = k_root_message_ack
            n_root_message_ack_msg_ids = k_root_message_ack_msg_ids
            n_root_report_environ = k_root_report_environ
            n_root_report_environ_extra = k_root_report_environ_extra
            n_root_error = k_root_error
            n_root_auth_success = k_root_auth_success
            n_root_topic_list = k_root_topic_list
            n_root_topic_list_topics = k_root_topic_list_topics
            n_root_message_list = k_root_message_list
            n_root_message_list_messages = k_root_message_list_messages
            n_root_message = k_root_message
            continue
        bad[n_bad] = i
        n_bad += _1
    counts[0] = n_root_auth
    counts[1] = n_root_exchange_key
    counts[2] = n_root_subscribe
    counts[3] = n_root_subscribe_topics
    counts[4] = n_root_unsubscribe
    counts[5] = n_root_unsubscribe_topics
    counts[6] = n_root_message_ack
    counts[7] = n_root_message_ack_msg_ids
    counts[8] = n_root_report_environ
    counts[9] = n_root_report_environ_extra
    counts[10] = n_root_error
    counts[11] = n_root_auth_success
    counts[12] = n_root_topic_list
    counts[13] = n_root_topic_list_topics
    counts[14] = n_root_message_list
    counts[15] = n_root_message_list_messages
    counts[16] = n_root_message
    return n_bad
