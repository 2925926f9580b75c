"""Codec of comet, dialect seed. Generated from wirelake.protocols.comet.layout: do not edit.

Regenerate it with `python -m wirelake.wire.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

import struct
from typing import Any, NoReturn

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore
from wirelake.protocols.comet.layout import (
    Auth,
    AuthSuccess,
    Error,
    ExchangeKey,
    GetMessageList,
    GetTopicList,
    Heartbeat,
    MessageAck,
    MessageList,
    Notification,
    Ok,
    ReportEnviron,
    Subscribe,
    TopicList,
    Unsubscribe,
)

_BYTE = rt.BYTE
_ZIGZAG = rt.ZIGZAG

_pack_BBH_be = struct.Struct(">BBH").pack
_pack_BH_be = struct.Struct(">BH").pack
_pack_B_be = struct.Struct(">B").pack
_pack_HB_be = struct.Struct(">HB").pack
_pack_H_be = struct.Struct(">H").pack
_pack_q_be = struct.Struct(">q").pack
_unpack_BBH_be = struct.Struct(">BBH").unpack_from
_unpack_BH_be = struct.Struct(">BH").unpack_from
_unpack_q_be = struct.Struct(">q").unpack_from

_EMPTY_GetMessageList = GetMessageList()
_EMPTY_GetTopicList = GetTopicList()
_EMPTY_Heartbeat = Heartbeat()
_EMPTY_Ok = Ok()


def read_message(buf: bytes, pos: int, end: int) -> tuple[Notification, int]:
    start = pos + 3
    if start > end:
        raise rt.short("message", pos, end, ("msg_type", 1), ("msg_id", 2))
    msg_type, n_msg_id = _unpack_BH_be(buf, pos)
    pos = start + n_msg_id
    if pos > end:
        raise rt.overrun("message.msg_id", start, n_msg_id, end)
    try:
        msg_id = buf[start:pos].decode()
    except UnicodeDecodeError:
        msg_id = buf[start:pos].decode("utf-8", "surrogateescape")
    start = pos + 2
    if start > end:
        raise rt.short("message", pos, end, ("content", 2))
    n_content = buf[pos] << 8 | buf[pos + 1]
    pos = start + n_content
    if pos > end:
        raise rt.overrun("message.content", start, n_content, end)
    content = buf[start:pos]
    if pos + 8 > end:
        raise rt.short("message", pos, end, ("ts", 8))
    ts, = _unpack_q_be(buf, pos)
    pos += 8
    return Notification(msg_type=msg_type, msg_id=msg_id, content=content, ts=ts), pos


def write_message(value: Notification) -> bytes:
    if value.job_id != '':
        raise rt.not_in_dialect("message.job_id", "seed")
    try:
        msg_id = value.msg_id.encode()
    except UnicodeEncodeError:
        msg_id = rt.put_loose(value.msg_id, "message.msg_id")
    content = value.content
    try:
        return b"".join((_pack_BH_be(value.msg_type, len(msg_id)), msg_id, _pack_H_be(len(content)), content, _pack_q_be(value.ts)))
    except (struct.error, OverflowError):
        raise rt.unfit("message", ("msg_type", ">B", value.msg_type), ("#msg_id", ">H", len(msg_id)), ("#content", ">H", len(content)), ("ts", ">q", value.ts)) from None


def read_message_list(buf: bytes, pos: int, end: int) -> tuple[MessageList, int]:
    if pos >= end:
        raise rt.short("message_list", pos, end, ("messages", 1))
    n_messages = buf[pos]
    pos += 1
    if n_messages * 13 > end - pos:
        raise rt.overrun("message_list.messages", pos, n_messages, end)
    items = []
    for _ in range(n_messages):
        item, pos = read_message(buf, pos, end)
        items.append(item)
    messages = tuple(items)
    return MessageList(messages=messages), pos


def write_message_list(value: MessageList) -> bytes:
    parts = []
    for item in value.messages:
        parts.append(write_message(item))
    messages_items = b"".join(parts)
    try:
        return _pack_B_be(len(value.messages)) + messages_items
    except (struct.error, OverflowError):
        raise rt.unfit("message_list", ("#messages", ">B", len(value.messages))) from None


def read_topic_list(buf: bytes, pos: int, end: int) -> tuple[TopicList, int]:
    if pos >= end:
        raise rt.short("topic_list", pos, end, ("topics", 1))
    n_topics = buf[pos]
    pos += 1
    if n_topics * 2 > end - pos:
        raise rt.overrun("topic_list.topics", pos, n_topics, end)
    items = []
    for _ in range(n_topics):
        start = pos + 2
        if start > end:
            raise rt.short("topic_list", pos, end, ("topics", 2))
        n_item = buf[pos] << 8 | buf[pos + 1]
        pos = start + n_item
        if pos > end:
            raise rt.overrun("topic_list.topics", start, n_item, end)
        try:
            item = buf[start:pos].decode()
        except UnicodeDecodeError:
            item = buf[start:pos].decode("utf-8", "surrogateescape")
        items.append(item)
    topics = tuple(items)
    return TopicList(topics=topics), pos


def write_topic_list(value: TopicList) -> bytes:
    parts = []
    for item in value.topics:
        try:
            piece = item.encode()
        except UnicodeEncodeError:
            piece = rt.put_loose(item, "topic_list.topics")
        try:
            parts.append(_pack_H_be(len(piece)) + piece)
        except (struct.error, OverflowError):
            raise rt.unfit("topic_list", ("#topics", ">H", len(piece))) from None
    topics_items = b"".join(parts)
    try:
        return _pack_B_be(len(value.topics)) + topics_items
    except (struct.error, OverflowError):
        raise rt.unfit("topic_list", ("#topics", ">B", len(value.topics))) from None


def read_auth_success(buf: bytes, pos: int, end: int) -> tuple[AuthSuccess, int]:
    start = pos + 2
    if start > end:
        raise rt.short("auth_success", pos, end, ("encrypt_key", 2))
    n_encrypt_key = buf[pos] << 8 | buf[pos + 1]
    pos = start + n_encrypt_key
    if pos > end:
        raise rt.overrun("auth_success.encrypt_key", start, n_encrypt_key, end)
    encrypt_key = buf[start:pos]
    return AuthSuccess(encrypt_key=encrypt_key), pos


def write_auth_success(value: AuthSuccess) -> bytes:
    encrypt_key = value.encrypt_key
    try:
        return _pack_H_be(len(encrypt_key)) + encrypt_key
    except (struct.error, OverflowError):
        raise rt.unfit("auth_success", ("#encrypt_key", ">H", len(encrypt_key))) from None


def read_error(buf: bytes, pos: int, end: int) -> tuple[Error, int]:
    start = pos + 3
    if start > end:
        raise rt.short("error", pos, end, ("error_code", 1), ("reason", 2))
    error_code, n_reason = _unpack_BH_be(buf, pos)
    pos = start + n_reason
    if pos > end:
        raise rt.overrun("error.reason", start, n_reason, end)
    try:
        reason = buf[start:pos].decode()
    except UnicodeDecodeError:
        reason = buf[start:pos].decode("utf-8", "surrogateescape")
    return Error(error_code=error_code, reason=reason), pos


def write_error(value: Error) -> bytes:
    try:
        reason = value.reason.encode()
    except UnicodeEncodeError:
        reason = rt.put_loose(value.reason, "error.reason")
    try:
        return _pack_BH_be(value.error_code, len(reason)) + reason
    except (struct.error, OverflowError):
        raise rt.unfit("error", ("error_code", ">B", value.error_code), ("#reason", ">H", len(reason))) from None


def read_ok(buf: bytes, pos: int, end: int) -> tuple[Ok, int]:
    return _EMPTY_Ok, pos


def write_ok(value: Ok) -> bytes:
    return b""


def read_report_environ(buf: bytes, pos: int, end: int) -> tuple[ReportEnviron, int]:
    start = pos + 4
    if start > end:
        raise rt.short("report_environ", pos, end, ("network_type", 1), ("isp", 1), ("phone_type", 2))
    network_type, isp, n_phone_type = _unpack_BBH_be(buf, pos)
    pos = start + n_phone_type
    if pos > end:
        raise rt.overrun("report_environ.phone_type", start, n_phone_type, end)
    try:
        phone_type = buf[start:pos].decode()
    except UnicodeDecodeError:
        phone_type = buf[start:pos].decode("utf-8", "surrogateescape")
    if pos >= end:
        raise rt.short("report_environ", pos, end, ("extra", 1))
    n_extra = buf[pos]
    pos += 1
    if n_extra * 2 > end - pos:
        raise rt.overrun("report_environ.extra", pos, n_extra, end)
    items = []
    for _ in range(n_extra):
        start = pos + 2
        if start > end:
            raise rt.short("report_environ", pos, end, ("extra", 2))
        n_item = buf[pos] << 8 | buf[pos + 1]
        pos = start + n_item
        if pos > end:
            raise rt.overrun("report_environ.extra", start, n_item, end)
        try:
            item = buf[start:pos].decode()
        except UnicodeDecodeError:
            item = buf[start:pos].decode("utf-8", "surrogateescape")
        items.append(item)
    extra = tuple(items)
    return ReportEnviron(network_type=network_type, isp=isp, phone_type=phone_type, extra=extra), pos


def write_report_environ(value: ReportEnviron) -> bytes:
    try:
        phone_type = value.phone_type.encode()
    except UnicodeEncodeError:
        phone_type = rt.put_loose(value.phone_type, "report_environ.phone_type")
    parts = []
    for item in value.extra:
        try:
            piece = item.encode()
        except UnicodeEncodeError:
            piece = rt.put_loose(item, "report_environ.extra")
        try:
            parts.append(_pack_H_be(len(piece)) + piece)
        except (struct.error, OverflowError):
            raise rt.unfit("report_environ", ("#extra", ">H", len(piece))) from None
    extra_items = b"".join(parts)
    try:
        return b"".join((_pack_BBH_be(value.network_type, value.isp, len(phone_type)), phone_type, _pack_B_be(len(value.extra)), extra_items))
    except (struct.error, OverflowError):
        raise rt.unfit("report_environ", ("network_type", ">B", value.network_type), ("isp", ">B", value.isp), ("#phone_type", ">H", len(phone_type)), ("#extra", ">B", len(value.extra))) from None


def read_message_ack(buf: bytes, pos: int, end: int) -> tuple[MessageAck, int]:
    if pos >= end:
        raise rt.short("message_ack", pos, end, ("msg_ids", 1))
    n_msg_ids = buf[pos]
    pos += 1
    if n_msg_ids * 2 > end - pos:
        raise rt.overrun("message_ack.msg_ids", pos, n_msg_ids, end)
    items = []
    for _ in range(n_msg_ids):
        start = pos + 2
        if start > end:
            raise rt.short("message_ack", pos, end, ("msg_ids", 2))
        n_item = buf[pos] << 8 | buf[pos + 1]
        pos = start + n_item
        if pos > end:
            raise rt.overrun("message_ack.msg_ids", start, n_item, end)
        try:
            item = buf[start:pos].decode()
        except UnicodeDecodeError:
            item = buf[start:pos].decode("utf-8", "surrogateescape")
        items.append(item)
    msg_ids = tuple(items)
    return MessageAck(msg_ids=msg_ids), pos


def write_message_ack(value: MessageAck) -> bytes:
    parts = []
    for item in value.msg_ids:
        try:
            piece = item.encode()
        except UnicodeEncodeError:
            piece = rt.put_loose(item, "message_ack.msg_ids")
        try:
            parts.append(_pack_H_be(len(piece)) + piece)
        except (struct.error, OverflowError):
            raise rt.unfit("message_ack", ("#msg_ids", ">H", len(piece))) from None
    msg_ids_items = b"".join(parts)
    try:
        return _pack_B_be(len(value.msg_ids)) + msg_ids_items
    except (struct.error, OverflowError):
        raise rt.unfit("message_ack", ("#msg_ids", ">B", len(value.msg_ids))) from None


def read_heartbeat(buf: bytes, pos: int, end: int) -> tuple[Heartbeat, int]:
    return _EMPTY_Heartbeat, pos


def write_heartbeat(value: Heartbeat) -> bytes:
    return b""


def read_get_message_list(buf: bytes, pos: int, end: int) -> tuple[GetMessageList, int]:
    return _EMPTY_GetMessageList, pos


def write_get_message_list(value: GetMessageList) -> bytes:
    return b""


def read_unsubscribe(buf: bytes, pos: int, end: int) -> tuple[Unsubscribe, int]:
    if pos >= end:
        raise rt.short("unsubscribe", pos, end, ("topics", 1))
    n_topics = buf[pos]
    pos += 1
    if n_topics * 2 > end - pos:
        raise rt.overrun("unsubscribe.topics", pos, n_topics, end)
    items = []
    for _ in range(n_topics):
        start = pos + 2
        if start > end:
            raise rt.short("unsubscribe", pos, end, ("topics", 2))
        n_item = buf[pos] << 8 | buf[pos + 1]
        pos = start + n_item
        if pos > end:
            raise rt.overrun("unsubscribe.topics", start, n_item, end)
        try:
            item = buf[start:pos].decode()
        except UnicodeDecodeError:
            item = buf[start:pos].decode("utf-8", "surrogateescape")
        items.append(item)
    topics = tuple(items)
    return Unsubscribe(topics=topics), pos


def write_unsubscribe(value: Unsubscribe) -> bytes:
    parts = []
    for item in value.topics:
        try:
            piece = item.encode()
        except UnicodeEncodeError:
            piece = rt.put_loose(item, "unsubscribe.topics")
        try:
            parts.append(_pack_H_be(len(piece)) + piece)
        except (struct.error, OverflowError):
            raise rt.unfit("unsubscribe", ("#topics", ">H", len(piece))) from None
    topics_items = b"".join(parts)
    try:
        return _pack_B_be(len(value.topics)) + topics_items
    except (struct.error, OverflowError):
        raise rt.unfit("unsubscribe", ("#topics", ">B", len(value.topics))) from None


def read_subscribe(buf: bytes, pos: int, end: int) -> tuple[Subscribe, int]:
    if pos >= end:
        raise rt.short("subscribe", pos, end, ("topics", 1))
    n_topics = buf[pos]
    pos += 1
    if n_topics * 2 > end - pos:
        raise rt.overrun("subscribe.topics", pos, n_topics, end)
    items = []
    for _ in range(n_topics):
        start = pos + 2
        if start > end:
            raise rt.short("subscribe", pos, end, ("topics", 2))
        n_item = buf[pos] << 8 | buf[pos + 1]
        pos = start + n_item
        if pos > end:
            raise rt.overrun("subscribe.topics", start, n_item, end)
        try:
            item = buf[start:pos].decode()
        except UnicodeDecodeError:
            item = buf[start:pos].decode("utf-8", "surrogateescape")
        items.append(item)
    topics = tuple(items)
    return Subscribe(topics=topics), pos


def write_subscribe(value: Subscribe) -> bytes:
    parts = []
    for item in value.topics:
        try:
            piece = item.encode()
        except UnicodeEncodeError:
            piece = rt.put_loose(item, "subscribe.topics")
        try:
            parts.append(_pack_H_be(len(piece)) + piece)
        except (struct.error, OverflowError):
            raise rt.unfit("subscribe", ("#topics", ">H", len(piece))) from None
    topics_items = b"".join(parts)
    try:
        return _pack_B_be(len(value.topics)) + topics_items
    except (struct.error, OverflowError):
        raise rt.unfit("subscribe", ("#topics", ">B", len(value.topics))) from None


def read_get_topic_list(buf: bytes, pos: int, end: int) -> tuple[GetTopicList, int]:
    return _EMPTY_GetTopicList, pos


def write_get_topic_list(value: GetTopicList) -> bytes:
    return b""


def read_exchange_key(buf: bytes, pos: int, end: int) -> tuple[ExchangeKey, int]:
    start = pos + 2
    if start > end:
        raise rt.short("exchange_key", pos, end, ("secret_key", 2))
    n_secret_key = buf[pos] << 8 | buf[pos + 1]
    pos = start + n_secret_key
    if pos > end:
        raise rt.overrun("exchange_key.secret_key", start, n_secret_key, end)
    secret_key = buf[start:pos]
    return ExchangeKey(secret_key=secret_key), pos


def write_exchange_key(value: ExchangeKey) -> bytes:
    secret_key = value.secret_key
    try:
        return _pack_H_be(len(secret_key)) + secret_key
    except (struct.error, OverflowError):
        raise rt.unfit("exchange_key", ("#secret_key", ">H", len(secret_key))) from None


def read_auth(buf: bytes, pos: int, end: int) -> tuple[Auth, int]:
    start = pos + 2
    if start > end:
        raise rt.short("auth", pos, end, ("client_id", 2))
    n_client_id = buf[pos] << 8 | buf[pos + 1]
    pos = start + n_client_id
    if pos > end:
        raise rt.overrun("auth.client_id", start, n_client_id, end)
    try:
        client_id = buf[start:pos].decode()
    except UnicodeDecodeError:
        client_id = buf[start:pos].decode("utf-8", "surrogateescape")
    start = pos + 2
    if start > end:
        raise rt.short("auth", pos, end, ("token", 2))
    n_token = buf[pos] << 8 | buf[pos + 1]
    pos = start + n_token
    if pos > end:
        raise rt.overrun("auth.token", start, n_token, end)
    try:
        token = buf[start:pos].decode()
    except UnicodeDecodeError:
        token = buf[start:pos].decode("utf-8", "surrogateescape")
    return Auth(client_id=client_id, token=token), pos


def write_auth(value: Auth) -> bytes:
    try:
        client_id = value.client_id.encode()
    except UnicodeEncodeError:
        client_id = rt.put_loose(value.client_id, "auth.client_id")
    try:
        token = value.token.encode()
    except UnicodeEncodeError:
        token = rt.put_loose(value.token, "auth.token")
    try:
        return b"".join((_pack_H_be(len(client_id)), client_id, _pack_H_be(len(token)), token))
    except (struct.error, OverflowError):
        raise rt.unfit("auth", ("#client_id", ">H", len(client_id)), ("#token", ">H", len(token))) from None


_FRAME_READERS_C2S: dict[int, Any] = {
    0x00: read_auth,
    0x01: read_exchange_key,
    0x02: read_get_topic_list,
    0x03: read_subscribe,
    0x04: read_unsubscribe,
    0x05: read_get_message_list,
    0x06: read_heartbeat,
    0x07: read_message_ack,
    0x08: read_report_environ,
}
_FRAME_READERS_S2C: dict[int, Any] = {
    0x00: read_ok,
    0x01: read_error,
    0x02: read_auth_success,
    0x03: read_topic_list,
    0x04: read_message_list,
    0x05: read_message,
}
_FRAME_WRITERS: dict[type, Any] = {
    Auth: (0x00, write_auth),
    ExchangeKey: (0x01, write_exchange_key),
    GetTopicList: (0x02, write_get_topic_list),
    Subscribe: (0x03, write_subscribe),
    Unsubscribe: (0x04, write_unsubscribe),
    GetMessageList: (0x05, write_get_message_list),
    Heartbeat: (0x06, write_heartbeat),
    MessageAck: (0x07, write_message_ack),
    ReportEnviron: (0x08, write_report_environ),
    Ok: (0x00, write_ok),
    Error: (0x01, write_error),
    AuthSuccess: (0x02, write_auth_success),
    TopicList: (0x03, write_topic_list),
    MessageList: (0x04, write_message_list),
    Notification: (0x05, write_message),
}


def _peek_frame(buf: bytes, pos: int, end: int, limit: int = 65535) -> NoReturn:
    raise NeedMore(2 - (end - pos))


def scan_frame(buf: bytes, pos: int, end: int, limit: int = 65535) -> int:
    if end - pos < 2:
        _peek_frame(buf, pos, end, limit)
    length = buf[pos] << 8 | buf[pos + 1]
    if length < 1:
        raise rt.refuse("bad_length", "frame.length", pos, str(length))
    if length > limit:
        raise rt.refuse("too_large", "frame.length", pos, f"{length} over {limit}")
    stop: int = pos + 2 + length
    if stop > end:
        raise NeedMore(stop - end)
    return stop


def decode_frame_c2s(buf: bytes, pos: int, end: int, limit: int = 65535) -> tuple[Any, int]:
    if end - pos < 2:
        _peek_frame(buf, pos, end, limit)
    length = buf[pos] << 8 | buf[pos + 1]
    if length < 1:
        raise rt.refuse("bad_length", "frame.length", pos, str(length))
    if length > limit:
        raise rt.refuse("too_large", "frame.length", pos, f"{length} over {limit}")
    stop: int = pos + 2 + length
    if stop > end:
        raise NeedMore(stop - end)
    type_ = buf[pos + 2]
    pos += 3
    read = _FRAME_READERS_C2S.get(type_)
    if read is None:
        raise rt.refuse("unknown_type", "frame.type", pos - 1, str(type_))
    body, pos = read(buf, pos, stop)
    if pos != stop:
        raise rt.refuse("trailing_bytes", "frame", pos, f"{stop - pos} left")
    return body, stop


def decode_frame_s2c(buf: bytes, pos: int, end: int, limit: int = 65535) -> tuple[Any, int]:
    if end - pos < 2:
        _peek_frame(buf, pos, end, limit)
    length = buf[pos] << 8 | buf[pos + 1]
    if length < 1:
        raise rt.refuse("bad_length", "frame.length", pos, str(length))
    if length > limit:
        raise rt.refuse("too_large", "frame.length", pos, f"{length} over {limit}")
    stop: int = pos + 2 + length
    if stop > end:
        raise NeedMore(stop - end)
    type_ = buf[pos + 2]
    pos += 3
    read = _FRAME_READERS_S2C.get(type_)
    if read is None:
        raise rt.refuse("unknown_type", "frame.type", pos - 1, str(type_))
    body, pos = read(buf, pos, stop)
    if pos != stop:
        raise rt.refuse("trailing_bytes", "frame", pos, f"{stop - pos} left")
    return body, stop


def encode_frame(value: Any) -> bytes:
    entry = _FRAME_WRITERS.get(type(value))
    if entry is None:
        raise rt.no_layout("frame.body", value)
    tag, write = entry
    body_: bytes = write(value)
    try:
        return _pack_HB_be(1 + len(body_), tag) + body_
    except (struct.error, OverflowError):
        raise rt.unfit("frame", ("type", ">B", tag), ("#length", ">H", 1 + len(body_))) from None
