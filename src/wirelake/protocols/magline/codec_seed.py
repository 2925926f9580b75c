"""Codec of magline, dialect seed. Generated from wirelake.protocols.magline.layout: do not edit.

Regenerate it with `python -m wirelake.wire.generate`; a test fails if it is out of date.
"""
# ruff: noqa
# fmt: off

from __future__ import annotations

import struct
from typing import Any, NoReturn

from wirelake.wire import runtime as rt
from wirelake.wire.errors import DecodeError, EncodeError, NeedMore
from wirelake.protocols.magline.layout import (
    Ack,
    Err,
    Fin,
    Frame,
    Pin,
    Pon,
    Psh,
    Rep,
    Req,
    Resume,
    Syn,
)

_BYTE = rt.BYTE
_ZIGZAG = rt.ZIGZAG

_pack_16s16s_be = struct.Struct(">16s16s").pack
_pack_32s32s32s_be = struct.Struct(">32s32s32s").pack
_pack_32s32s_be = struct.Struct(">32s32s").pack
_pack_BBHHHII_be = struct.Struct(">BBHHHII").pack
_pack_I16s_be = struct.Struct(">I16s").pack
_pack_II_be = struct.Struct(">II").pack
_pack_I_be = struct.Struct(">I").pack
_unpack_16s16s_be = struct.Struct(">16s16s").unpack_from
_unpack_32s32s32s_be = struct.Struct(">32s32s32s").unpack_from
_unpack_32s32s_be = struct.Struct(">32s32s").unpack_from
_unpack_BBHHHII_be = struct.Struct(">BBHHHII").unpack_from
_unpack_I16s_be = struct.Struct(">I16s").unpack_from
_unpack_II_be = struct.Struct(">II").unpack_from
_unpack_I_be = struct.Struct(">I").unpack_from



def read_fin(buf: bytes, pos: int, end: int) -> tuple[Fin, int]:
    if pos + 4 > end:
        raise rt.short("fin", pos, end, ("reason_number", 4))
    reason_number, = _unpack_I_be(buf, pos)
    pos += 4
    return Fin(reason_number=reason_number), pos


def write_fin(value: Fin) -> bytes:
    try:
        return _pack_I_be(value.reason_number)
    except (struct.error, OverflowError):
        raise rt.unfit("fin", ("reason_number", ">I", value.reason_number)) from None


def read_psh(buf: bytes, pos: int, end: int) -> tuple[Psh, int]:
    if pos + 20 > end:
        raise rt.short("psh", pos, end, ("business_cmd", 4), ("hmac", 16))
    business_cmd, hmac = _unpack_I16s_be(buf, pos)
    pos += 20
    data = buf[pos:end]
    pos = end
    return Psh(business_cmd=business_cmd, hmac=hmac, data=data), pos


def write_psh(value: Psh) -> bytes:
    if len(value.hmac) != 16:
        raise rt.wrong_size("psh.hmac", "16", len(value.hmac))
    data = value.data
    try:
        return _pack_I16s_be(value.business_cmd, value.hmac) + data
    except (struct.error, OverflowError):
        raise rt.unfit("psh", ("business_cmd", ">I", value.business_cmd), ("hmac", ">16s", value.hmac)) from None


def read_rep(buf: bytes, pos: int, end: int) -> tuple[Rep, int]:
    if pos + 20 > end:
        raise rt.short("rep", pos, end, ("business_cmd", 4), ("hmac", 16))
    business_cmd, hmac = _unpack_I16s_be(buf, pos)
    pos += 20
    data = buf[pos:end]
    pos = end
    return Rep(business_cmd=business_cmd, hmac=hmac, data=data), pos


def write_rep(value: Rep) -> bytes:
    if len(value.hmac) != 16:
        raise rt.wrong_size("rep.hmac", "16", len(value.hmac))
    data = value.data
    try:
        return _pack_I16s_be(value.business_cmd, value.hmac) + data
    except (struct.error, OverflowError):
        raise rt.unfit("rep", ("business_cmd", ">I", value.business_cmd), ("hmac", ">16s", value.hmac)) from None


def read_req(buf: bytes, pos: int, end: int) -> tuple[Req, int]:
    if pos + 20 > end:
        raise rt.short("req", pos, end, ("business_cmd", 4), ("hmac", 16))
    business_cmd, hmac = _unpack_I16s_be(buf, pos)
    pos += 20
    data = buf[pos:end]
    pos = end
    return Req(business_cmd=business_cmd, hmac=hmac, data=data), pos


def write_req(value: Req) -> bytes:
    if len(value.hmac) != 16:
        raise rt.wrong_size("req.hmac", "16", len(value.hmac))
    data = value.data
    try:
        return _pack_I16s_be(value.business_cmd, value.hmac) + data
    except (struct.error, OverflowError):
        raise rt.unfit("req", ("business_cmd", ">I", value.business_cmd), ("hmac", ">16s", value.hmac)) from None


def read_pon(buf: bytes, pos: int, end: int) -> tuple[Pon, int]:
    if pos + 4 > end:
        raise rt.short("pon", pos, end, ("ping_number", 4))
    ping_number, = _unpack_I_be(buf, pos)
    pos += 4
    return Pon(ping_number=ping_number), pos


def write_pon(value: Pon) -> bytes:
    try:
        return _pack_I_be(value.ping_number)
    except (struct.error, OverflowError):
        raise rt.unfit("pon", ("ping_number", ">I", value.ping_number)) from None


def read_pin(buf: bytes, pos: int, end: int) -> tuple[Pin, int]:
    if pos + 4 > end:
        raise rt.short("pin", pos, end, ("ping_number", 4))
    ping_number, = _unpack_I_be(buf, pos)
    pos += 4
    return Pin(ping_number=ping_number), pos


def write_pin(value: Pin) -> bytes:
    try:
        return _pack_I_be(value.ping_number)
    except (struct.error, OverflowError):
        raise rt.unfit("pin", ("ping_number", ">I", value.ping_number)) from None


def read_err(buf: bytes, pos: int, end: int) -> tuple[Err, int]:
    if pos + 8 > end:
        raise rt.short("err", pos, end, ("business_cmd", 4), ("error_number", 4))
    business_cmd, error_number = _unpack_II_be(buf, pos)
    pos += 8
    return Err(business_cmd=business_cmd, error_number=error_number), pos


def write_err(value: Err) -> bytes:
    try:
        return _pack_II_be(value.business_cmd, value.error_number)
    except (struct.error, OverflowError):
        raise rt.unfit("err", ("business_cmd", ">I", value.business_cmd), ("error_number", ">I", value.error_number)) from None


def read_ack(buf: bytes, pos: int, end: int) -> tuple[Ack, int]:
    if pos + 96 > end:
        raise rt.short("ack", pos, end, ("random", 32), ("public_key", 32), ("sealed_sid", 32))
    random, public_key, sealed_sid = _unpack_32s32s32s_be(buf, pos)
    pos += 96
    return Ack(random=random, public_key=public_key, sealed_sid=sealed_sid), pos


def write_ack(value: Ack) -> bytes:
    if len(value.random) != 32:
        raise rt.wrong_size("ack.random", "32", len(value.random))
    if len(value.public_key) != 32:
        raise rt.wrong_size("ack.public_key", "32", len(value.public_key))
    if len(value.sealed_sid) != 32:
        raise rt.wrong_size("ack.sealed_sid", "32", len(value.sealed_sid))
    try:
        return _pack_32s32s32s_be(value.random, value.public_key, value.sealed_sid)
    except (struct.error, OverflowError):
        raise rt.unfit("ack", ("random", ">32s", value.random), ("public_key", ">32s", value.public_key), ("sealed_sid", ">32s", value.sealed_sid)) from None


def read_syn(buf: bytes, pos: int, end: int) -> tuple[Syn, int]:
    if pos + 64 > end:
        raise rt.short("syn", pos, end, ("random", 32), ("public_key", 32))
    random, public_key = _unpack_32s32s_be(buf, pos)
    pos += 64
    return Syn(random=random, public_key=public_key), pos


def write_syn(value: Syn) -> bytes:
    if len(value.random) != 32:
        raise rt.wrong_size("syn.random", "32", len(value.random))
    if len(value.public_key) != 32:
        raise rt.wrong_size("syn.public_key", "32", len(value.public_key))
    try:
        return _pack_32s32s_be(value.random, value.public_key)
    except (struct.error, OverflowError):
        raise rt.unfit("syn", ("random", ">32s", value.random), ("public_key", ">32s", value.public_key)) from None


def read_resume(buf: bytes, pos: int, end: int) -> tuple[Resume, int]:
    if pos + 32 > end:
        raise rt.short("resume", pos, end, ("sid", 16), ("binder", 16))
    sid, binder = _unpack_16s16s_be(buf, pos)
    pos += 32
    return Resume(sid=sid, binder=binder), pos


def write_resume(value: Resume) -> bytes:
    if len(value.sid) != 16:
        raise rt.wrong_size("resume.sid", "16", len(value.sid))
    if len(value.binder) != 16:
        raise rt.wrong_size("resume.binder", "16", len(value.binder))
    try:
        return _pack_16s16s_be(value.sid, value.binder)
    except (struct.error, OverflowError):
        raise rt.unfit("resume", ("sid", ">16s", value.sid), ("binder", ">16s", value.binder)) from None


_FRAME_TAGS: dict[int, tuple[int, int, int, int, int]] = {
    1: (127, 0xfc03, 512, 64, 64),  # syn
    2: (127, 0xff03, 512, 96, 96),  # ack
    3: (127, 0xff00, -1, 8, 8),  # err
    4: (127, 0xff02, -1, 4, 4),  # pin
    5: (127, 0xff02, -1, 4, 4),  # pon
    6: (126, 0xff03, -1, 20, -1),  # req
    7: (126, 0xff01, -1, 20, -1),  # rep
    8: (126, 0xff03, -1, 20, -1),  # psh
    9: (127, 0xff02, -1, 4, 4),  # fin
}
_FRAME_READERS: dict[int, Any] = {
    0x01: read_syn,
    0x02: read_ack,
    0x03: read_err,
    0x04: read_pin,
    0x05: read_pon,
    0x06: read_req,
    0x07: read_rep,
    0x08: read_psh,
    0x09: read_fin,
}
_FRAME_WRITERS: dict[type, Any] = {
    Syn: (0x01, 0x7f, write_syn),
    Ack: (0x02, 0x7f, write_ack),
    Err: (0x03, 0x7f, write_err),
    Pin: (0x04, 0x7f, write_pin),
    Pon: (0x05, 0x7f, write_pon),
    Req: (0x06, 0x7e, write_req),
    Rep: (0x07, 0x7e, write_rep),
    Psh: (0x08, 0x7e, write_psh),
    Fin: (0x09, 0x7f, write_fin),
}


def _peek_frame(buf: bytes, pos: int, end: int, limit: int = 1048576) -> NoReturn:
    if end > pos and buf[pos] not in (126, 127):
        raise rt.refuse("bad_magic", "frame.magic", pos)
    if not b'f'.startswith(buf[pos + 1 : min(end, pos + 2)]):
        raise rt.refuse("bad_version", "frame.version", pos + 1)
    raise NeedMore(16 - (end - pos))


def scan_frame(buf: bytes, pos: int, end: int, limit: int = 1048576) -> int:
    if end - pos < 16:
        _peek_frame(buf, pos, end, limit)
    magic, version, cmd, head_optional, head_length, seq, length = _unpack_BBHHHII_be(buf, pos)
    if magic not in (126, 127):
        raise rt.refuse("bad_magic", "frame.magic", pos)
    if version != 102:
        raise rt.refuse("bad_version", "frame.version", pos + 1)
    rules = _FRAME_TAGS.get(cmd)
    if rules is None:
        raise rt.refuse("unknown_type", "frame.cmd", pos + 2, str(cmd))
    const, forbidden, most, least, exact = rules
    if magic != const:
        raise rt.refuse("magic_mismatch", "frame.magic", pos)
    if head_length > length or (head_optional == 0) != (head_length == 0):
        raise rt.refuse("bad_header", "frame.head_length", pos + 6)
    if head_optional & forbidden:
        raise rt.refuse("bad_option", "frame.head_optional", pos + 4)
    if length > limit or 0 <= most < length:
        raise rt.refuse("too_large", "frame.length", pos + 12)
    if length - head_length < least or 0 <= exact != length - head_length:
        raise rt.refuse("bad_length", "frame.length", pos + 12)
    stop: int = pos + 16 + length
    if stop > end:
        raise NeedMore(stop - end)
    return stop


def decode_frame(buf: bytes, pos: int, end: int, limit: int = 1048576) -> tuple[Frame, int]:
    if end - pos < 16:
        _peek_frame(buf, pos, end, limit)
    magic, version, cmd, head_optional, head_length, seq, length = _unpack_BBHHHII_be(buf, pos)
    if magic not in (126, 127):
        raise rt.refuse("bad_magic", "frame.magic", pos)
    if version != 102:
        raise rt.refuse("bad_version", "frame.version", pos + 1)
    rules = _FRAME_TAGS.get(cmd)
    if rules is None:
        raise rt.refuse("unknown_type", "frame.cmd", pos + 2, str(cmd))
    const, forbidden, most, least, exact = rules
    if magic != const:
        raise rt.refuse("magic_mismatch", "frame.magic", pos)
    if head_length > length or (head_optional == 0) != (head_length == 0):
        raise rt.refuse("bad_header", "frame.head_length", pos + 6)
    if head_optional & forbidden:
        raise rt.refuse("bad_option", "frame.head_optional", pos + 4)
    if length > limit or 0 <= most < length:
        raise rt.refuse("too_large", "frame.length", pos + 12)
    if length - head_length < least or 0 <= exact != length - head_length:
        raise rt.refuse("bad_length", "frame.length", pos + 12)
    stop: int = pos + 16 + length
    if stop > end:
        raise NeedMore(stop - end)
    pos += 16
    auth = reply_to = resume = key_id = None
    unknown_options: tuple[Any, ...] = ()
    if head_optional:
        area = pos + head_length
        if head_optional & 0x0001:
            start, pos = rt.option(buf, pos, area, 16, "frame.auth")
            auth = buf[start:pos]
        if head_optional & 0x0002:
            start, pos = rt.option(buf, pos, area, 4, "frame.reply_to")
            reply_to = int.from_bytes(buf[start:pos], "big")
        if head_optional & 0x00fc:
            more, pos = rt.unknown_options(buf, pos, area, head_optional & 0x00fc, "frame.unknown_options")
            unknown_options += more
        if head_optional & 0x0100:
            start, pos = rt.option(buf, pos, area, 32, "frame.resume")
            resume, _ = read_resume(buf, start, pos)
        if head_optional & 0x0200:
            start, pos = rt.option(buf, pos, area, 8, "frame.key_id")
            key_id = buf[start:pos]
        if pos != area:
            raise rt.refuse("bad_header", "frame.head_length", pos, "bytes left over")
    body, pos = _FRAME_READERS[cmd](buf, pos, stop)
    if pos != stop:
        raise rt.refuse("trailing_bytes", "frame", pos, f"{stop - pos} left")
    return Frame(seq=seq, auth=auth, reply_to=reply_to, resume=resume, key_id=key_id, unknown_options=unknown_options, body=body), stop


def encode_frame(value: Frame) -> bytes:
    entry = _FRAME_WRITERS.get(type(value.body))
    if entry is None:
        raise rt.no_layout("frame.body", value.body)
    tag, const, write = entry
    body_: bytes = write(value.body)
    if value.auth is None and value.reply_to is None and value.resume is None and value.key_id is None and not value.unknown_options:
        options, option_bits = b"", 0
    else:
        found: dict[int, bytes] = {}
        if value.auth is not None:
            if tag not in (3, 4, 5, 9):
                raise rt.misplaced("frame.auth", tag)
            if len(value.auth) != 16:
                raise rt.wrong_size("frame.auth", "16", len(value.auth))
            found[0x0001] = value.auth
        if value.reply_to is not None:
            if tag not in (3, 7):
                raise rt.misplaced("frame.reply_to", tag)
            found[0x0002] = rt.put_int_of(value.reply_to, 4, False, "frame.reply_to", "big")
        if value.resume is not None:
            if tag not in (1,):
                raise rt.misplaced("frame.resume", tag)
            found[0x0100] = write_resume(value.resume)
        if value.key_id is not None:
            if tag not in (1,):
                raise rt.misplaced("frame.key_id", tag)
            if len(value.key_id) != 8:
                raise rt.wrong_size("frame.key_id", "8", len(value.key_id))
            found[0x0200] = value.key_id
        rt.add_unknown_options(found, value.unknown_options, 0x00fc)
        options, option_bits = rt.option_area(found)
    try:
        return _pack_BBHHHII_be(const, 102, tag, option_bits, len(options), value.seq, len(options) + len(body_)) + options + body_
    except (struct.error, OverflowError):
        raise rt.unfit("frame", ("magic", ">B", const), ("cmd", ">H", tag), ("head_optional", ">H", option_bits), ("#head_length", ">H", len(options)), ("seq", ">I", value.seq), ("#length", ">I", len(options) + len(body_))) from None
