"""Codec of tny and relay, dialect seed. Generated from wirelake.protocols.tny.layout: do not edit.

Regenerate it with `python -m wirelake.wire.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

import struct
from typing import Any, NoReturn

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore
from wirelake.protocols.tny.layout import (
    AccessPoint,
    Attribute,
    Contact,
    Envelope,
    ForwardHeader,
    LinkClose,
    LinkOpen,
    LinkOpened,
    LinkPing,
    LinkPong,
    Message,
    OriginalMessageIdHeader,
    Packet,
    Ping,
    Point,
    Pong,
    RelayPacket,
    TracingHeader,
    TunnelConnect,
    TunnelConnected,
    TunnelDisconnect,
    TunnelRelay,
    TunnelSwitchLink,
)

_BYTE = rt.BYTE
_ZIGZAG = rt.ZIGZAG

_pack_3sIiBq_le = struct.Struct("<3sIiBq").pack
_pack_4sB_be = struct.Struct(">4sB").pack
_pack_B_be = struct.Struct(">B").pack
_pack_I_le = struct.Struct("<I").pack
_pack_q_le = struct.Struct("<q").pack
_pack_qq_le = struct.Struct("<qq").pack
_unpack_3sI_le = struct.Struct("<3sI").unpack_from
_unpack_4sB_be = struct.Struct(">4sB").unpack_from
_unpack_I_le = struct.Struct("<I").unpack_from
_unpack_iBq_le = struct.Struct("<iBq").unpack_from
_unpack_q_le = struct.Struct("<q").unpack_from
_unpack_qq_le = struct.Struct("<qq").unpack_from

_EMPTY_Ping = Ping()
_EMPTY_Pong = Pong()


def read_tunnel_relay(buf: bytes, pos: int, end: int) -> tuple[TunnelRelay, int]:
    if pos + 16 > end:
        raise rt.short("tunnel_relay", pos, end, ("instance_id", 8), ("tunnel_id", 8))
    instance_id, tunnel_id = _unpack_qq_le(buf, pos)
    pos += 16
    message, pos = read_message(buf, pos, end)
    return TunnelRelay(instance_id=instance_id, tunnel_id=tunnel_id, message=message), pos


def write_tunnel_relay(value: TunnelRelay) -> bytes:
    try:
        return _pack_qq_le(value.instance_id, value.tunnel_id) + write_message(value.message)
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_relay", ("instance_id", "<q", value.instance_id), ("tunnel_id", "<q", value.tunnel_id)) from None


def read_tunnel_switch_link(buf: bytes, pos: int, end: int) -> tuple[TunnelSwitchLink, int]:
    instance_id = 0
    tunnel_id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "tunnel_switch_link")
        if key == 0x9:
            if pos + 8 > end:
                raise rt.short("tunnel_switch_link", pos, end, ("instance_id", 8))
            instance_id, = _unpack_q_le(buf, pos)
            pos += 8
        elif key == 0x11:
            if pos + 8 > end:
                raise rt.short("tunnel_switch_link", pos, end, ("tunnel_id", 8))
            tunnel_id, = _unpack_q_le(buf, pos)
            pos += 8
        else:
            pos = rt.skip_field(buf, key, pos, end, "tunnel_switch_link")
            unknown.append(buf[start:pos])
    return TunnelSwitchLink(instance_id=instance_id, tunnel_id=tunnel_id, unknown=b"".join(unknown)), pos


def write_tunnel_switch_link(value: TunnelSwitchLink) -> bytes:
    parts = []
    instance_id = value.instance_id
    try:
        parts.append(b'\t' + _pack_q_le(instance_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_switch_link", ("instance_id", "<q", instance_id)) from None
    tunnel_id = value.tunnel_id
    try:
        parts.append(b'\x11' + _pack_q_le(tunnel_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_switch_link", ("tunnel_id", "<q", tunnel_id)) from None
    parts.append(value.unknown)
    return b"".join(parts)


def read_tunnel_disconnect(buf: bytes, pos: int, end: int) -> tuple[TunnelDisconnect, int]:
    instance_id = 0
    tunnel_id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "tunnel_disconnect")
        if key == 0x9:
            if pos + 8 > end:
                raise rt.short("tunnel_disconnect", pos, end, ("instance_id", 8))
            instance_id, = _unpack_q_le(buf, pos)
            pos += 8
        elif key == 0x11:
            if pos + 8 > end:
                raise rt.short("tunnel_disconnect", pos, end, ("tunnel_id", 8))
            tunnel_id, = _unpack_q_le(buf, pos)
            pos += 8
        else:
            pos = rt.skip_field(buf, key, pos, end, "tunnel_disconnect")
            unknown.append(buf[start:pos])
    return TunnelDisconnect(instance_id=instance_id, tunnel_id=tunnel_id, unknown=b"".join(unknown)), pos


def write_tunnel_disconnect(value: TunnelDisconnect) -> bytes:
    parts = []
    instance_id = value.instance_id
    try:
        parts.append(b'\t' + _pack_q_le(instance_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_disconnect", ("instance_id", "<q", instance_id)) from None
    tunnel_id = value.tunnel_id
    try:
        parts.append(b'\x11' + _pack_q_le(tunnel_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_disconnect", ("tunnel_id", "<q", tunnel_id)) from None
    parts.append(value.unknown)
    return b"".join(parts)


def read_tunnel_connected(buf: bytes, pos: int, end: int) -> tuple[TunnelConnected, int]:
    result = False
    instance_id = 0
    tunnel_id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "tunnel_connected")
        if key == 0x50:
            number_, pos = rt.uvarint(buf, pos, end, "tunnel_connected.result")
            result = number_ != 0
        elif key == 0x9:
            if pos + 8 > end:
                raise rt.short("tunnel_connected", pos, end, ("instance_id", 8))
            instance_id, = _unpack_q_le(buf, pos)
            pos += 8
        elif key == 0x11:
            if pos + 8 > end:
                raise rt.short("tunnel_connected", pos, end, ("tunnel_id", 8))
            tunnel_id, = _unpack_q_le(buf, pos)
            pos += 8
        else:
            pos = rt.skip_field(buf, key, pos, end, "tunnel_connected")
            unknown.append(buf[start:pos])
    return TunnelConnected(result=result, instance_id=instance_id, tunnel_id=tunnel_id, unknown=b"".join(unknown)), pos


def write_tunnel_connected(value: TunnelConnected) -> bytes:
    parts = []
    result = value.result
    parts.append(b'P\x01' if result else b'P\x00')
    instance_id = value.instance_id
    try:
        parts.append(b'\t' + _pack_q_le(instance_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_connected", ("instance_id", "<q", instance_id)) from None
    tunnel_id = value.tunnel_id
    try:
        parts.append(b'\x11' + _pack_q_le(tunnel_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_connected", ("tunnel_id", "<q", tunnel_id)) from None
    parts.append(value.unknown)
    return b"".join(parts)


def read_tunnel_connect(buf: bytes, pos: int, end: int) -> tuple[TunnelConnect, int]:
    ip = b""
    port = 0
    instance_id = 0
    tunnel_id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "tunnel_connect")
        if key == 0x52:
            if pos >= end:
                raise rt.refuse("varint_truncated", "tunnel_connect.ip", pos)
            n_ip = buf[pos]
            if n_ip < 0x80:
                pos += 1
            else:
                n_ip, pos = rt.uvarint(buf, pos, end, "tunnel_connect.ip")
            start = pos
            pos += n_ip
            if pos > end:
                raise rt.overrun("tunnel_connect.ip", start, n_ip, end)
            if n_ip not in (0, 4, 16,):
                raise rt.refuse("bad_length", "tunnel_connect.ip", start, str(n_ip))
            ip = buf[start:pos]
        elif key == 0x58:
            port, pos = rt.uvarint(buf, pos, end, "tunnel_connect.port")
            port = rt.int32_of(port)
        elif key == 0x9:
            if pos + 8 > end:
                raise rt.short("tunnel_connect", pos, end, ("instance_id", 8))
            instance_id, = _unpack_q_le(buf, pos)
            pos += 8
        elif key == 0x11:
            if pos + 8 > end:
                raise rt.short("tunnel_connect", pos, end, ("tunnel_id", 8))
            tunnel_id, = _unpack_q_le(buf, pos)
            pos += 8
        else:
            pos = rt.skip_field(buf, key, pos, end, "tunnel_connect")
            unknown.append(buf[start:pos])
    return TunnelConnect(ip=ip, port=port, instance_id=instance_id, tunnel_id=tunnel_id, unknown=b"".join(unknown)), pos


def write_tunnel_connect(value: TunnelConnect) -> bytes:
    parts = []
    ip = value.ip
    if len(ip) not in (0, 4, 16,):
        raise rt.wrong_size("tunnel_connect.ip", "0, 4, 16", len(ip))
    parts.append(b'R' + rt.write_uvarint(len(ip)) + ip)
    port = value.port
    parts.append(b'X' + rt.put_int(port, 32, "tunnel_connect.port"))
    instance_id = value.instance_id
    try:
        parts.append(b'\t' + _pack_q_le(instance_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_connect", ("instance_id", "<q", instance_id)) from None
    tunnel_id = value.tunnel_id
    try:
        parts.append(b'\x11' + _pack_q_le(tunnel_id))
    except (struct.error, OverflowError):
        raise rt.unfit("tunnel_connect", ("tunnel_id", "<q", tunnel_id)) from None
    parts.append(value.unknown)
    return b"".join(parts)


def read_link_pong(buf: bytes, pos: int, end: int) -> tuple[LinkPong, int]:
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "link_pong")
        pos = rt.skip_field(buf, key, pos, end, "link_pong")
        unknown.append(buf[start:pos])
    return LinkPong(unknown=b"".join(unknown)), pos


def write_link_pong(value: LinkPong) -> bytes:
    return value.unknown


def read_link_ping(buf: bytes, pos: int, end: int) -> tuple[LinkPing, int]:
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "link_ping")
        pos = rt.skip_field(buf, key, pos, end, "link_ping")
        unknown.append(buf[start:pos])
    return LinkPing(unknown=b"".join(unknown)), pos


def write_link_ping(value: LinkPing) -> bytes:
    return value.unknown


def read_link_close(buf: bytes, pos: int, end: int) -> tuple[LinkClose, int]:
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "link_close")
        pos = rt.skip_field(buf, key, pos, end, "link_close")
        unknown.append(buf[start:pos])
    return LinkClose(unknown=b"".join(unknown)), pos


def write_link_close(value: LinkClose) -> bytes:
    return value.unknown


def read_link_opened(buf: bytes, pos: int, end: int) -> tuple[LinkOpened, int]:
    result = False
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "link_opened")
        if key == 0x8:
            number_, pos = rt.uvarint(buf, pos, end, "link_opened.result")
            result = number_ != 0
        else:
            pos = rt.skip_field(buf, key, pos, end, "link_opened")
            unknown.append(buf[start:pos])
    return LinkOpened(result=result, unknown=b"".join(unknown)), pos


def write_link_opened(value: LinkOpened) -> bytes:
    parts = []
    result = value.result
    parts.append(b'\x08\x01' if result else b'\x08\x00')
    parts.append(value.unknown)
    return b"".join(parts)


def read_link_open(buf: bytes, pos: int, end: int) -> tuple[LinkOpen, int]:
    service = ""
    instance = 0
    key_ = ""
    service_type: Any = None
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "link_open")
        if key == 0xa:
            if pos >= end:
                raise rt.refuse("varint_truncated", "link_open.service", pos)
            n_service = buf[pos]
            if n_service < 0x80:
                pos += 1
            else:
                n_service, pos = rt.uvarint(buf, pos, end, "link_open.service")
            start = pos
            pos += n_service
            if pos > end:
                raise rt.overrun("link_open.service", start, n_service, end)
            try:
                service = buf[start:pos].decode()
            except UnicodeDecodeError as error:
                raise rt.not_utf8("link_open.service", start, error) from None
        elif key == 0x11:
            if pos + 8 > end:
                raise rt.short("link_open", pos, end, ("instance", 8))
            instance, = _unpack_q_le(buf, pos)
            pos += 8
        elif key == 0x1a:
            if pos >= end:
                raise rt.refuse("varint_truncated", "link_open.key", pos)
            n_key_ = buf[pos]
            if n_key_ < 0x80:
                pos += 1
            else:
                n_key_, pos = rt.uvarint(buf, pos, end, "link_open.key")
            start = pos
            pos += n_key_
            if pos > end:
                raise rt.overrun("link_open.key", start, n_key_, end)
            try:
                key_ = buf[start:pos].decode()
            except UnicodeDecodeError as error:
                raise rt.not_utf8("link_open.key", start, error) from None
        elif key == 0x20:
            service_type, pos = rt.uvarint(buf, pos, end, "link_open.service_type")
            service_type = rt.int32_of(service_type)
        else:
            pos = rt.skip_field(buf, key, pos, end, "link_open")
            unknown.append(buf[start:pos])
    return LinkOpen(service=service, instance=instance, key=key_, service_type=service_type, unknown=b"".join(unknown)), pos


def write_link_open(value: LinkOpen) -> bytes:
    parts = []
    service = value.service
    try:
        data_ = service.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("link_open.service", error) from None
    parts.append(b'\n' + rt.write_uvarint(len(data_)) + data_)
    instance = value.instance
    try:
        parts.append(b'\x11' + _pack_q_le(instance))
    except (struct.error, OverflowError):
        raise rt.unfit("link_open", ("instance", "<q", instance)) from None
    key_ = value.key
    try:
        data_ = key_.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("link_open.key", error) from None
    parts.append(b'\x1a' + rt.write_uvarint(len(data_)) + data_)
    service_type = value.service_type
    if service_type is not None:
        parts.append(b' ' + rt.put_int(service_type, 32, "link_open.service_type"))
    parts.append(value.unknown)
    return b"".join(parts)


def read_attribute(buf: bytes, pos: int, end: int) -> tuple[Attribute, int]:
    key_ = ""
    value_ = ""
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "attribute")
        if key == 0xa:
            if pos >= end:
                raise rt.refuse("varint_truncated", "attribute.key", pos)
            n_key_ = buf[pos]
            if n_key_ < 0x80:
                pos += 1
            else:
                n_key_, pos = rt.uvarint(buf, pos, end, "attribute.key")
            start = pos
            pos += n_key_
            if pos > end:
                raise rt.overrun("attribute.key", start, n_key_, end)
            try:
                key_ = buf[start:pos].decode()
            except UnicodeDecodeError as error:
                raise rt.not_utf8("attribute.key", start, error) from None
        elif key == 0x12:
            if pos >= end:
                raise rt.refuse("varint_truncated", "attribute.value", pos)
            n_value_ = buf[pos]
            if n_value_ < 0x80:
                pos += 1
            else:
                n_value_, pos = rt.uvarint(buf, pos, end, "attribute.value")
            start = pos
            pos += n_value_
            if pos > end:
                raise rt.overrun("attribute.value", start, n_value_, end)
            try:
                value_ = buf[start:pos].decode()
            except UnicodeDecodeError as error:
                raise rt.not_utf8("attribute.value", start, error) from None
        else:
            pos = rt.skip_field(buf, key, pos, end, "attribute")
            unknown.append(buf[start:pos])
    return Attribute(key=key_, value=value_, unknown=b"".join(unknown)), pos


def write_attribute(value: Attribute) -> bytes:
    parts = []
    key_ = value.key
    try:
        data_ = key_.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("attribute.key", error) from None
    parts.append(b'\n' + rt.write_uvarint(len(data_)) + data_)
    value_ = value.value
    try:
        data_ = value_.encode()
    except UnicodeEncodeError as error:
        raise rt.not_text("attribute.value", error) from None
    parts.append(b'\x12' + rt.write_uvarint(len(data_)) + data_)
    parts.append(value.unknown)
    return b"".join(parts)


def read_tracing_header(buf: bytes, pos: int, end: int) -> tuple[TracingHeader, int]:
    attributes: list[Any] = []
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "tracing_header")
        if key == 0xa:
            length_, pos = rt.uvarint(buf, pos, end, "tracing_header.attributes")
            if length_ > end - pos:
                raise rt.overrun("tracing_header.attributes", pos, length_, end)
            item, pos = read_attribute(buf, pos, pos + length_)
            attributes.append(item)
        else:
            pos = rt.skip_field(buf, key, pos, end, "tracing_header")
            unknown.append(buf[start:pos])
    return TracingHeader(attributes=tuple(attributes), unknown=b"".join(unknown)), pos


def write_tracing_header(value: TracingHeader) -> bytes:
    parts = []
    attributes = value.attributes
    for item in attributes:
        data_ = write_attribute(item)
        parts.append(b'\n' + rt.write_uvarint(len(data_)) + data_)
    parts.append(value.unknown)
    return b"".join(parts)


def read_original_message_id_header(buf: bytes, pos: int, end: int) -> tuple[OriginalMessageIdHeader, int]:
    message_id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "original_message_id_header")
        if key == 0x8:
            message_id, pos = rt.uvarint(buf, pos, end, "original_message_id_header.message_id")
            message_id = rt.int64_of(message_id)
        else:
            pos = rt.skip_field(buf, key, pos, end, "original_message_id_header")
            unknown.append(buf[start:pos])
    return OriginalMessageIdHeader(message_id=message_id, unknown=b"".join(unknown)), pos


def write_original_message_id_header(value: OriginalMessageIdHeader) -> bytes:
    parts = []
    message_id = value.message_id
    parts.append(b'\x08' + rt.put_int(message_id, 64, "original_message_id_header.message_id"))
    parts.append(value.unknown)
    return b"".join(parts)


def read_contact(buf: bytes, pos: int, end: int) -> tuple[Contact, int]:
    contact_id = 0
    contact_type_id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "contact")
        if key == 0x8:
            contact_id, pos = rt.uvarint(buf, pos, end, "contact.contact_id")
            contact_id = rt.int64_of(contact_id)
        elif key == 0x10:
            contact_type_id, pos = rt.uvarint(buf, pos, end, "contact.contact_type_id")
            contact_type_id = rt.int32_of(contact_type_id)
        else:
            pos = rt.skip_field(buf, key, pos, end, "contact")
            unknown.append(buf[start:pos])
    return Contact(contact_id=contact_id, contact_type_id=contact_type_id, unknown=b"".join(unknown)), pos


def write_contact(value: Contact) -> bytes:
    parts = []
    contact_id = value.contact_id
    parts.append(b'\x08' + rt.put_int(contact_id, 64, "contact.contact_id"))
    contact_type_id = value.contact_type_id
    parts.append(b'\x10' + rt.put_int(contact_type_id, 32, "contact.contact_type_id"))
    parts.append(value.unknown)
    return b"".join(parts)


def read_access_point(buf: bytes, pos: int, end: int) -> tuple[AccessPoint, int]:
    id = 0
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "access_point")
        if key == 0x8:
            id, pos = rt.uvarint(buf, pos, end, "access_point.id")
            id = rt.int64_of(id)
        else:
            pos = rt.skip_field(buf, key, pos, end, "access_point")
            unknown.append(buf[start:pos])
    return AccessPoint(id=id, unknown=b"".join(unknown)), pos


def write_access_point(value: AccessPoint) -> bytes:
    parts = []
    id = value.id
    parts.append(b'\x08' + rt.put_int(id, 64, "access_point.id"))
    parts.append(value.unknown)
    return b"".join(parts)


def read_point(buf: bytes, pos: int, end: int) -> tuple[Point, int]:
    service_type_id = 0
    access_id: Any = None
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "point")
        if key == 0x8:
            service_type_id, pos = rt.uvarint(buf, pos, end, "point.service_type_id")
            service_type_id = rt.int32_of(service_type_id)
        elif key == 0x12:
            length_, pos = rt.uvarint(buf, pos, end, "point.access_id")
            if length_ > end - pos:
                raise rt.overrun("point.access_id", pos, length_, end)
            access_id, pos = read_access_point(buf, pos, pos + length_)
        else:
            pos = rt.skip_field(buf, key, pos, end, "point")
            unknown.append(buf[start:pos])
    return Point(service_type_id=service_type_id, access_id=access_id, unknown=b"".join(unknown)), pos


def write_point(value: Point) -> bytes:
    parts = []
    service_type_id = value.service_type_id
    parts.append(b'\x08' + rt.put_int(service_type_id, 32, "point.service_type_id"))
    access_id = value.access_id
    if access_id is not None:
        data_ = write_access_point(access_id)
        parts.append(b'\x12' + rt.write_uvarint(len(data_)) + data_)
    parts.append(value.unknown)
    return b"".join(parts)


def read_forward_header(buf: bytes, pos: int, end: int) -> tuple[ForwardHeader, int]:
    from__: Any = None
    sender: Any = None
    to: Any = None
    receiver: Any = None
    from_forwarder: Any = None
    to_forwarder: Any = None
    unknown = []
    while pos < end:
        start = pos
        key = buf[pos]
        pos += 1
        if key >= 0x80:
            key, pos = rt.uvarint(buf, start, end, "forward_header")
        if key == 0x12:
            length_, pos = rt.uvarint(buf, pos, end, "forward_header.from_")
            if length_ > end - pos:
                raise rt.overrun("forward_header.from_", pos, length_, end)
            from__, pos = read_point(buf, pos, pos + length_)
        elif key == 0x1a:
            length_, pos = rt.uvarint(buf, pos, end, "forward_header.sender")
            if length_ > end - pos:
                raise rt.overrun("forward_header.sender", pos, length_, end)
            sender, pos = read_contact(buf, pos, pos + length_)
        elif key == 0x22:
            length_, pos = rt.uvarint(buf, pos, end, "forward_header.to")
            if length_ > end - pos:
                raise rt.overrun("forward_header.to", pos, length_, end)
            to, pos = read_point(buf, pos, pos + length_)
        elif key == 0x2a:
            length_, pos = rt.uvarint(buf, pos, end, "forward_header.receiver")
            if length_ > end - pos:
                raise rt.overrun("forward_header.receiver", pos, length_, end)
            receiver, pos = read_contact(buf, pos, pos + length_)
        elif key == 0x32:
            length_, pos = rt.uvarint(buf, pos, end, "forward_header.from_forwarder")
            if length_ > end - pos:
                raise rt.overrun("forward_header.from_forwarder", pos, length_, end)
            from_forwarder, pos = read_point(buf, pos, pos + length_)
        elif key == 0x3a:
            length_, pos = rt.uvarint(buf, pos, end, "forward_header.to_forwarder")
            if length_ > end - pos:
                raise rt.overrun("forward_header.to_forwarder", pos, length_, end)
            to_forwarder, pos = read_point(buf, pos, pos + length_)
        else:
            pos = rt.skip_field(buf, key, pos, end, "forward_header")
            unknown.append(buf[start:pos])
    return ForwardHeader(from_=from__, sender=sender, to=to, receiver=receiver, from_forwarder=from_forwarder, to_forwarder=to_forwarder, unknown=b"".join(unknown)), pos


def write_forward_header(value: ForwardHeader) -> bytes:
    parts = []
    from__ = value.from_
    if from__ is not None:
        data_ = write_point(from__)
        parts.append(b'\x12' + rt.write_uvarint(len(data_)) + data_)
    sender = value.sender
    if sender is not None:
        data_ = write_contact(sender)
        parts.append(b'\x1a' + rt.write_uvarint(len(data_)) + data_)
    to = value.to
    if to is not None:
        data_ = write_point(to)
        parts.append(b'"' + rt.write_uvarint(len(data_)) + data_)
    receiver = value.receiver
    if receiver is not None:
        data_ = write_contact(receiver)
        parts.append(b'*' + rt.write_uvarint(len(data_)) + data_)
    from_forwarder = value.from_forwarder
    if from_forwarder is not None:
        data_ = write_point(from_forwarder)
        parts.append(b'2' + rt.write_uvarint(len(data_)) + data_)
    to_forwarder = value.to_forwarder
    if to_forwarder is not None:
        data_ = write_point(to_forwarder)
        parts.append(b':' + rt.write_uvarint(len(data_)) + data_)
    parts.append(value.unknown)
    return b"".join(parts)


def read_pong(buf: bytes, pos: int, end: int) -> tuple[Pong, int]:
    if pos + 4 > end:
        raise rt.short("pong", pos, end, ("length", 4))
    length = buf[pos : pos + 4]
    if length != b'\x00\x00\x00\x00':
        raise rt.refuse("bad_length", "pong.length", pos)
    pos += 4
    return _EMPTY_Pong, pos


def write_pong(value: Pong) -> bytes:
    return b'\x00\x00\x00\x00'


def read_ping(buf: bytes, pos: int, end: int) -> tuple[Ping, int]:
    if pos + 4 > end:
        raise rt.short("ping", pos, end, ("length", 4))
    length = buf[pos : pos + 4]
    if length != b'\x00\x00\x00\x00':
        raise rt.refuse("bad_length", "ping.length", pos)
    pos += 4
    return _EMPTY_Ping, pos


def write_ping(value: Ping) -> bytes:
    return b'\x00\x00\x00\x00'


def read_message(buf: bytes, pos: int, end: int) -> tuple[Message, int]:
    if pos >= end:
        raise rt.refuse("varint_truncated", "message.id", pos)
    id = buf[pos]
    if id < 0x80:
        pos += 1
    else:
        id, pos = rt.twos64(buf, pos, end, "message.id")
    if pos >= end:
        raise rt.short("message", pos, end, ("reserved", 1))
    bits = buf[pos]
    reserved = bits >> 7
    has_forward_header = bits & 0x40
    line = bits >> 3 & 0x7
    has_body = bits & 0x4
    mode = bits & 0x3
    if mode > 2:
        raise rt.refuse("reserved_value", "message.mode", pos, str(mode))
    pos += 1
    if pos >= end:
        raise rt.refuse("varint_truncated", "message.protocol", pos)
    protocol = buf[pos]
    if protocol < 0x80:
        pos += 1
    else:
        protocol, pos = rt.twos32(buf, pos, end, "message.protocol")
    if pos >= end:
        raise rt.refuse("varint_truncated", "message.code", pos)
    code = buf[pos]
    if code < 0x80:
        pos += 1
    else:
        code, pos = rt.twos32(buf, pos, end, "message.code")
    if pos >= end:
        raise rt.refuse("varint_truncated", "message.to_message", pos)
    to_message = buf[pos]
    if to_message < 0x80:
        pos += 1
    else:
        to_message, pos = rt.twos64(buf, pos, end, "message.to_message")
    if pos >= end:
        raise rt.refuse("varint_truncated", "message.time", pos)
    time = buf[pos]
    if time < 0x80:
        pos += 1
    else:
        time, pos = rt.twos64(buf, pos, end, "message.time")
    if has_forward_header:
        if pos >= end:
            raise rt.refuse("varint_truncated", "message.forward_header", pos)
        n_forward_header = buf[pos]
        if n_forward_header < 0x80:
            pos += 1
        else:
            n_forward_header, pos = rt.twos32(buf, pos, end, "message.forward_header")
        start = pos
        pos += n_forward_header
        if n_forward_header < 0 or pos > end:
            raise rt.overrun("message.forward_header", start, n_forward_header, end)
        forward_header = buf[start:pos]
    else:
        forward_header = None
    if has_body:
        if pos >= end:
            raise rt.refuse("varint_truncated", "message.body", pos)
        n_body = buf[pos]
        if n_body < 0x80:
            pos += 1
        else:
            n_body, pos = rt.twos32(buf, pos, end, "message.body")
        start = pos
        pos += n_body
        if n_body < 0 or pos > end:
            raise rt.overrun("message.body", start, n_body, end)
        body = buf[start:pos]
    else:
        body = None
    return Message(id=id, reserved=reserved, line=line, mode=mode, protocol=protocol, code=code, to_message=to_message, time=time, forward_header=forward_header, body=body), pos


def write_message(value: Message) -> bytes:
    if value.headers is not None:
        raise rt.not_in_dialect("message.headers", "seed")
    v_id = value.id
    reserved = value.reserved
    if not 0 <= reserved <= 1:
        raise rt.out_of_range("message.reserved", reserved, "0 to 1")
    line = value.line
    if not 0 <= line <= 7:
        raise rt.out_of_range("message.line", line, "0 to 7")
    mode = value.mode
    if mode not in (0, 1, 2):
        raise rt.out_of_range("message.mode", mode, "one of (0, 1, 2)")
    v_protocol = value.protocol
    v_code = value.code
    v_to_message = value.to_message
    v_time = value.time
    forward_header = value.forward_header
    if forward_header is None:
        forward_header_piece = b""
    else:
        n_forward_header = len(forward_header)
        forward_header_piece = (_BYTE[n_forward_header] if n_forward_header < 128 else rt.put_twos32(n_forward_header, "message.forward_header")) + forward_header
    body = value.body
    if body is None:
        body_piece = b""
    else:
        n_body = len(body)
        body_piece = (_BYTE[n_body] if n_body < 128 else rt.put_twos32(n_body, "message.body")) + body
    return b"".join(((_BYTE[v_id] if 0 <= v_id < 128 else rt.put_twos64(v_id, "message.id")), _pack_B_be(reserved << 7 | (0x40 if value.forward_header is not None else 0) | line << 3 | (0x4 if value.body is not None else 0) | mode), (_BYTE[v_protocol] if 0 <= v_protocol < 128 else rt.put_twos32(v_protocol, "message.protocol")), (_BYTE[v_code] if 0 <= v_code < 128 else rt.put_twos32(v_code, "message.code")), (_BYTE[v_to_message] if 0 <= v_to_message < 128 else rt.put_twos64(v_to_message, "message.to_message")), (_BYTE[v_time] if 0 <= v_time < 128 else rt.put_twos64(v_time, "message.time")), forward_header_piece, body_piece))


# -- envelope ----------------------------------------------------------------------------------


def _peek_envelope(buf: bytes, pos: int, end: int, limit: int = 1048576) -> NoReturn:
    raise NeedMore(4 - (end - pos))


def scan_envelope(buf: bytes, pos: int, end: int, limit: int = 1048576) -> int:
    if end - pos < 4:
        _peek_envelope(buf, pos, end, limit)
    length, = _unpack_I_le(buf, pos)
    if length > limit:
        raise rt.refuse("too_large", "envelope.length", pos, f"{length} over {limit}")
    stop: int = pos + 4 + length
    if stop > end:
        raise NeedMore(stop - end)
    return stop


def decode_envelope(buf: bytes, pos: int, end: int, limit: int = 1048576) -> tuple[Envelope, int]:
    if end - pos < 4:
        _peek_envelope(buf, pos, end, limit)
    length, = _unpack_I_le(buf, pos)
    if length > limit:
        raise rt.refuse("too_large", "envelope.length", pos, f"{length} over {limit}")
    stop: int = pos + 4 + length
    if stop > end:
        raise NeedMore(stop - end)
    pos += 4
    end = stop
    if pos >= end:
        raise rt.refuse("varint_truncated", "envelope.access_id", pos)
    access_id = buf[pos]
    if access_id < 0x80:
        pos += 1
    else:
        access_id, pos = rt.twos64(buf, pos, end, "envelope.access_id")
    if pos >= end:
        raise rt.refuse("varint_truncated", "envelope.number", pos)
    number = buf[pos]
    if number < 0x80:
        pos += 1
    else:
        number, pos = rt.twos32(buf, pos, end, "envelope.number")
    content = buf[pos:end]
    pos = end
    if pos != stop:
        raise rt.refuse("trailing_bytes", "envelope", pos, f"{stop - pos} left")
    return Envelope(access_id=access_id, number=number, content=content), stop


def encode_envelope(value: Envelope) -> bytes:
    v_access_id = value.access_id
    v_number = value.number
    content = value.content
    piece_0 = (_BYTE[v_access_id] if 0 <= v_access_id < 128 else rt.put_twos64(v_access_id, "envelope.access_id"))
    piece_1 = (_BYTE[v_number] if 0 <= v_number < 128 else rt.put_twos32(v_number, "envelope.number"))
    try:
        return b"".join((_pack_I_le(len(piece_0) + len(piece_1) + len(content)), piece_0, piece_1, content))
    except (struct.error, OverflowError):
        raise rt.unfit("envelope", ("#length", "<I", len(piece_0) + len(piece_1) + len(content))) from None


# -- ping --------------------------------------------------------------------------------------


def _peek_ping(buf: bytes, pos: int, end: int, limit: int = 0) -> NoReturn:
    if not b'\x00\x00\x00\x00'.startswith(buf[pos : min(end, pos + 4)]):
        raise rt.refuse("bad_length", "ping.length", pos)
    raise NeedMore(4 - (end - pos))


def scan_ping(buf: bytes, pos: int, end: int, limit: int = 0) -> int:
    if end - pos < 4:
        _peek_ping(buf, pos, end, limit)
    return pos + 4


def decode_ping(buf: bytes, pos: int, end: int, limit: int = 0) -> tuple[Ping, int]:
    if end - pos < 4:
        _peek_ping(buf, pos, end, limit)
    return read_ping(buf, pos, pos + 4)


def encode_ping(value: Ping) -> bytes:
    return b'\x00\x00\x00\x00'


# -- pong --------------------------------------------------------------------------------------


def _peek_pong(buf: bytes, pos: int, end: int, limit: int = 0) -> NoReturn:
    if not b'\x00\x00\x00\x00'.startswith(buf[pos : min(end, pos + 4)]):
        raise rt.refuse("bad_length", "pong.length", pos)
    raise NeedMore(4 - (end - pos))


def scan_pong(buf: bytes, pos: int, end: int, limit: int = 0) -> int:
    if end - pos < 4:
        _peek_pong(buf, pos, end, limit)
    return pos + 4


def decode_pong(buf: bytes, pos: int, end: int, limit: int = 0) -> tuple[Pong, int]:
    if end - pos < 4:
        _peek_pong(buf, pos, end, limit)
    return read_pong(buf, pos, pos + 4)


def encode_pong(value: Pong) -> bytes:
    return b'\x00\x00\x00\x00'


_PACKET_DECODERS: dict[int, Any] = {
    0x00: decode_envelope,
    0x01: decode_ping,
    0x02: decode_pong,
}
_PACKET_SCANS: dict[int, Any] = {
    0x00: scan_envelope,
    0x01: scan_ping,
    0x02: scan_pong,
}
_PACKET_WRITERS: dict[type, Any] = {
    Envelope: (0x00, encode_envelope),
    Ping: (0x01, write_ping),
    Pong: (0x02, write_pong),
}


def _peek_packet(buf: bytes, pos: int, end: int, limit: int = 1048576) -> NoReturn:
    if not b'tny.'.startswith(buf[pos : min(end, pos + 4)]):
        raise rt.refuse("bad_magic", "packet.head", pos)
    raise NeedMore(9 - (end - pos))


def scan_packet(buf: bytes, pos: int, end: int, limit: int = 1048576) -> int:
    if end - pos < 5:
        _peek_packet(buf, pos, end, limit)
    head, bits = _unpack_4sB_be(buf, pos)
    if head != b'tny.':
        raise rt.refuse("bad_magic", "packet.head", pos)
    type_ = bits & 0x3
    tag = type_
    scan = _PACKET_SCANS.get(tag)
    if scan is None:
        raise rt.refuse("unknown_type", "packet.type", pos + 4, str(tag))
    stop: int = scan(buf, pos + 5, end, limit)
    return stop


def decode_packet(buf: bytes, pos: int, end: int, limit: int = 1048576) -> tuple[Packet, int]:
    if end - pos < 5:
        _peek_packet(buf, pos, end, limit)
    head, bits = _unpack_4sB_be(buf, pos)
    if head != b'tny.':
        raise rt.refuse("bad_magic", "packet.head", pos)
    reserved = bits >> 5
    waste = bits & 0x10 != 0
    encrypt = bits & 0x8 != 0
    verify = bits & 0x4 != 0
    type_ = bits & 0x3
    tag = type_
    decode = _PACKET_DECODERS.get(tag)
    if decode is None:
        raise rt.refuse("unknown_type", "packet.type", pos + 4, str(tag))
    body, stop = decode(buf, pos + 5, end, limit)
    return Packet(reserved=reserved, waste=waste, encrypt=encrypt, verify=verify, body=body), stop


def encode_packet(value: Packet) -> bytes:
    entry = _PACKET_WRITERS.get(type(value.body))
    if entry is None:
        raise rt.no_layout("packet.body", value.body)
    tag, write = entry
    body_: bytes = write(value.body)
    reserved = value.reserved
    if not 0 <= reserved <= 7:
        raise rt.out_of_range("packet.reserved", reserved, "0 to 7")
    return _pack_4sB_be(b'tny.', reserved << 5 | (0x10 if value.waste else 0) | (0x8 if value.encrypt else 0) | (0x4 if value.verify else 0) | (tag & 0x3)) + body_


_RELAY_PACKET_READERS: dict[int, Any] = {
    0x01: read_link_open,
    0x02: read_link_opened,
    0x03: read_link_close,
    0x05: read_link_ping,
    0x06: read_link_pong,
    0x11: read_tunnel_connect,
    0x12: read_tunnel_connected,
    0x13: read_tunnel_disconnect,
    0x14: read_tunnel_switch_link,
    0x15: read_tunnel_relay,
}
_RELAY_PACKET_WRITERS: dict[type, Any] = {
    LinkOpen: (0x01, write_link_open),
    LinkOpened: (0x02, write_link_opened),
    LinkClose: (0x03, write_link_close),
    LinkPing: (0x05, write_link_ping),
    LinkPong: (0x06, write_link_pong),
    TunnelConnect: (0x11, write_tunnel_connect),
    TunnelConnected: (0x12, write_tunnel_connected),
    TunnelDisconnect: (0x13, write_tunnel_disconnect),
    TunnelSwitchLink: (0x14, write_tunnel_switch_link),
    TunnelRelay: (0x15, write_tunnel_relay),
}


def _peek_relay_packet(buf: bytes, pos: int, end: int, limit: int = 2097152) -> NoReturn:
    if not b'rpk'.startswith(buf[pos : min(end, pos + 3)]):
        raise rt.refuse("bad_magic", "relay_packet.head", pos)
    raise NeedMore(7 - (end - pos))


def scan_relay_packet(buf: bytes, pos: int, end: int, limit: int = 2097152) -> int:
    if end - pos < 7:
        _peek_relay_packet(buf, pos, end, limit)
    head, length = _unpack_3sI_le(buf, pos)
    if head != b'rpk':
        raise rt.refuse("bad_magic", "relay_packet.head", pos)
    if length < 13:
        raise rt.refuse("bad_length", "relay_packet.length", pos + 3, str(length))
    if length > limit:
        raise rt.refuse("too_large", "relay_packet.length", pos + 3, f"{length} over {limit}")
    stop: int = pos + 7 + length
    if stop > end:
        raise NeedMore(stop - end)
    return stop


def decode_relay_packet(buf: bytes, pos: int, end: int, limit: int = 2097152) -> tuple[RelayPacket, int]:
    if end - pos < 7:
        _peek_relay_packet(buf, pos, end, limit)
    head, length = _unpack_3sI_le(buf, pos)
    if head != b'rpk':
        raise rt.refuse("bad_magic", "relay_packet.head", pos)
    if length < 13:
        raise rt.refuse("bad_length", "relay_packet.length", pos + 3, str(length))
    if length > limit:
        raise rt.refuse("too_large", "relay_packet.length", pos + 3, f"{length} over {limit}")
    stop: int = pos + 7 + length
    if stop > end:
        raise NeedMore(stop - end)
    id, bits, time = _unpack_iBq_le(buf, pos + 7)
    reserved = bits >> 5
    mark = bits >> 4 & 0x1
    sub_id = bits & 0xf
    pos += 20
    read = _RELAY_PACKET_READERS.get(mark << 4 | sub_id)
    if read is None:
        raise rt.refuse("unknown_type", "relay_packet.mark", pos - 9, str(mark << 4 | sub_id))
    arguments, pos = read(buf, pos, stop)
    if pos != stop:
        raise rt.refuse("trailing_bytes", "relay_packet", pos, f"{stop - pos} left")
    return RelayPacket(id=id, reserved=reserved, time=time, arguments=arguments), stop


def encode_relay_packet(value: RelayPacket) -> bytes:
    entry = _RELAY_PACKET_WRITERS.get(type(value.arguments))
    if entry is None:
        raise rt.no_layout("relay_packet.arguments", value.arguments)
    tag, write = entry
    body_: bytes = write(value.arguments)
    reserved = value.reserved
    if not 0 <= reserved <= 7:
        raise rt.out_of_range("relay_packet.reserved", reserved, "0 to 7")
    try:
        return _pack_3sIiBq_le(b'rpk', 13 + len(body_), value.id, reserved << 5 | (tag >> 4 & 0x1) << 4 | (tag & 0xf), value.time) + body_
    except (struct.error, OverflowError):
        raise rt.unfit("relay_packet", ("id", "<i", value.id), ("time", "<q", value.time), ("#length", "<I", 13 + len(body_))) from None
