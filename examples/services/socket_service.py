"""A service with sockets alone (docs/guides/services-wire.md); arguments: HOST PORT ID TOKEN."""

import socket
import struct
import sys

OPS = {"demo/add": 3001, "demo/count": 3002, "demo/never": 3003, "demo/cancelled": 3004}
MESSAGE_ID, SOURCE_ID, HEADER, DATA, ADDRESS, SEQ_NO, ERROR, FLAG = 17, 18, 20, 21, 23, 27, 29, 30


def number(n):
    n, out = n << 1 if n >= 0 else (-n << 1) - 1, b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def var(v):
    if isinstance(v, int):
        return (b"\x05" if abs(v) < 1 << 31 else b"\x06") + number(v)
    if isinstance(v, str):
        return b"\x18" + number(len(v.encode())) + v.encode()
    if isinstance(v, dict):
        return b"\x15" + number(len(v)) + b"".join(var(k)[1:] + var(x) for k, x in v.items())
    return b"\x17" + number(len(v)) + b"".join(map(var, v))


def row(kind, body):
    return struct.pack(">I", kind << 24 | len(body)) + body


def send(link, head, values):
    body = b"".join(row(DATA, var(name)[1:] + var(value)) for name, value in values.items())
    link.sendall(head + body + bytes(4))


def read_number(body, at=0):
    n = shift = 0
    while body[at] > 127:
        n, shift, at = n | (body[at] & 127) << shift, shift + 7, at + 1
    n |= body[at] << shift
    return n >> 1 ^ -(n & 1), at + 1


def read_pair(body):
    size, at = read_number(body)
    kind, value = body[at + size], body[at + size + 1 :]
    return body[at : at + size].decode(), read_number(value)[0] if kind in (5, 6) else value[1:]


def message(stream):
    rows = []
    while len(head := stream.read(4)) == 4:
        if head[0] == 0:
            return rows
        rows.append((head[0], stream.read(int.from_bytes(head[1:], "big"))))
    raise SystemExit("the hub has closed the connection")


def answer(call, values, head=b""):
    flags = row(FLAG, b"\x06") + row(FLAG, b"\x08")
    send(link, flags + head + row(SOURCE_ID, call), values)


host, port, client, token = sys.argv[1:]
link = socket.create_connection((host, int(port)))
stream, streams, cancelled = link.makefile("rb"), {}, 0
offers = [{"name": name, "numbers": {"tny": n, "magline": n}} for name, n in OPS.items()]
for op, values in ("auth", {"id": client, "token": token}), ("serve", {"services": offers}):
    address = row(ADDRESS, b"\x3c" + var("hub")[1:]) + row(ADDRESS, b"\x28" + var(op)[1:])
    send(link, row(FLAG, b"\x08") + address + row(MESSAGE_ID, bytes(7) + b"\x01"), values)
    if text := dict(message(stream)).get(ERROR):
        raise SystemExit(f"hub/{op}: {text.decode()}")

while rows := message(stream):
    values = dict(read_pair(body) for kind, body in rows if kind in (DATA, HEADER))
    op = next(body[2:] for kind, body in rows if kind == ADDRESS and body[0] == 40)
    call = dict(rows).get(MESSAGE_ID) or struct.pack(">Q", values["id"])
    if op == b"add" and {"a", "b"} <= values.keys():
        answer(call, {"c": values["a"] + values["b"]})
    elif op == b"add":
        answer(call, {}, row(ERROR, b"missing argument 'a' or 'b'"))
    elif op == b"cancelled":
        answer(call, {"n": cancelled})
    elif op == b"count":
        streams[call] = [0, values["n"], values["wirelake-window"]]
    elif op == b"never":
        streams[call] = [0, 1, 0]  # a stream that may send nothing
    elif op == b"more" and call in streams:
        streams[call][2] = values["parts"]
    elif op == b"cancel" and streams.pop(call, None):
        cancelled += 1
        answer(call, {}, row(ERROR, b"cancelled"))
    for call, state in list(streams.items()):
        while state[0] < min(state[1:]):
            answer(call, {"i": state[0]}, row(SEQ_NO, number(state[0] + 1) + b"\x00"))
            state[0] += 1
        if state[0] == state[1]:
            answer(call, {}, row(SEQ_NO, 2 * number(streams.pop(call)[1] + 1)))
