"""The messages that are timed: a few hundred for each protocol, drawn from a fixed seed.

The mix follows what a busy connection carries: mostly payload, some acknowledgements, a few
handshakes, heartbeats in between. Sizes and ids are those of a service that has been up for a
while: ids of two or three varint bytes, timestamps in milliseconds of this decade.

A message is what our codec takes and gives. Of tny that is a pair: the packet, whose content is
already the bytes of a message, and that message; both ends of a connection work with both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.protocol import PROTOCOL as COMET_PROTOCOL
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP_PROTOCOL
from wirelake.protocols.magline import layout as magline
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE_PROTOCOL
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import PROTOCOL as TNY_PROTOCOL
from wirelake.protocols.tny.protocol import RELAY as RELAY_PROTOCOL
from wirelake.wire import Protocol
from wirelake.wire.model import Direction

__all__ = ["PROTOCOLS", "SIZE", "Corpus", "Sample", "corpus"]

SIZE = 400
"""Messages in a corpus: more than caches of single objects would like, few enough to check all."""
SEED = 20_240_229
NOW_MS = 1_767_225_600_000

Draw: TypeAlias = Callable[[random.Random], Any]


class Sample(NamedTuple):
    """A message, its bytes, and who sends it where that matters."""

    message: Any
    data: bytes
    direction: Direction | None
    inner: Any = None
    """Of a tny packet: the message in its content."""


class Corpus(NamedTuple):
    """What one protocol is timed with."""

    protocol: Protocol
    samples: tuple[Sample, ...]


# -- words -----------------------------------------------------------------------------------

_NAMES = ("order", "user", "room", "match", "invoice", "device", "ticket", "本地", "skin", "quest")
_CITIES = ("Hamburg", "Shenzhen", "São Paulo", "Oslo", "厦门", "Leeds", "Austin", "Nagoya")


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_NAMES + _CITIES) for _ in range(words))


def _json(rng: random.Random) -> bytes:
    """The kind of text that applications put into payloads."""
    title, city = rng.choice(_NAMES), rng.choice(_CITIES)
    return f'{{"{title}":{rng.randrange(10**6)},"at":"{city}","ok":true}}'.encode()


def _blob(rng: random.Random, low: int, high: int) -> bytes:
    return rng.randbytes(rng.randint(low, high))


def _hex(rng: random.Random, size: int) -> str:
    return rng.randbytes(size).hex()


def _time(rng: random.Random) -> int:
    return NOW_MS + rng.randrange(86_400_000)


# -- comet -----------------------------------------------------------------------------------


def _topic(rng: random.Random) -> str:
    return f"@{rng.choice(_NAMES)}/{rng.choice(_CITIES).lower()}"


def _topics(rng: random.Random) -> tuple[str, ...]:
    return tuple(_topic(rng) for _ in range(rng.randint(1, 5)))


def _notification(rng: random.Random) -> comet.Notification:
    content = _json(rng) + _text(rng, 4).encode()
    return comet.Notification(rng.randrange(4), _hex(rng, 8), content=content, ts=_time(rng))


def _environ(rng: random.Random) -> comet.ReportEnviron:
    extra = (f"build={rng.randrange(900, 999)}", f"city={rng.choice(_CITIES)}")
    return comet.ReportEnviron(rng.randrange(4), rng.randrange(4), "Pixel 9 Pro", extra)


_COMET: tuple[tuple[int, Direction, Draw], ...] = (
    (24, "s2c", _notification),
    (16, "c2s", lambda r: comet.MessageAck(tuple(_hex(r, 8) for _ in range(r.randint(1, 3))))),
    (14, "c2s", lambda _: comet.Heartbeat()),
    (14, "s2c", lambda _: comet.Ok()),
    (5, "c2s", lambda r: comet.Auth(f"client-{r.randrange(10**7)}", _hex(r, 24))),
    (5, "s2c", lambda r: comet.AuthSuccess(_blob(r, 44, 44))),
    (4, "c2s", lambda r: comet.ExchangeKey(_blob(r, 80, 80))),
    (5, "c2s", lambda r: comet.Subscribe(_topics(r))),
    (2, "c2s", lambda r: comet.Unsubscribe(_topics(r))),
    (2, "c2s", lambda _: comet.GetTopicList()),
    (2, "s2c", lambda r: comet.TopicList(_topics(r))),
    (2, "c2s", lambda _: comet.GetMessageList()),
    (2, "s2c", lambda r: comet.MessageList(tuple(_notification(r) for _ in range(3)))),
    (2, "c2s", _environ),
    (1, "s2c", lambda r: comet.Error(r.randrange(5), "not now: " + _text(r, 2))),
)


# -- tny and RelayPack -----------------------------------------------------------------------


def _tny_message(rng: random.Random) -> tny.Message:
    mode = rng.choice((0, 0, 0, 1, 1, 1, 2))
    return tny.Message(
        id=rng.randrange(1, 60_000),
        line=rng.randrange(2),
        mode=mode,
        protocol=rng.randrange(10_010_100, 10_990_100),
        code=100 if rng.random() < 0.9 else rng.randrange(200, 12_000),
        to_message=rng.randrange(1, 60_000) if mode == 1 else 0,
        time=_time(rng),
        forward_header=_blob(rng, 12, 30) if rng.random() < 0.2 else None,
        body=_blob(rng, 10, 120) if rng.random() < 0.95 else None,
    )


def _tny_packet(rng: random.Random) -> tuple[tny.Packet, tny.Message]:
    message = _tny_message(rng)
    content = TNY_PROTOCOL.codec().write_message(message)
    number = rng.randrange(1, 60_000)
    envelope = tny.Envelope(access_id=_access_id(rng), number=number, content=content)
    return tny.Packet(body=envelope), message


def _access_id(rng: random.Random) -> int:
    """A player's, mostly; clients that never set one say 0, other servers have long ones."""
    kind = rng.random()
    if kind < 0.1:
        return 3_000_000_000_000_000 + rng.randrange(9_999) * 10_000 + 1
    return 0 if kind < 0.2 else rng.randrange(10**5, 10**8)


_TNY: tuple[tuple[int, None, Draw], ...] = (
    (94, None, _tny_packet),
    (3, None, lambda _: tny.Packet(body=tny.Ping())),
    (3, None, lambda _: tny.Packet(body=tny.Pong())),
)


def _relayed(arguments: Draw) -> Draw:
    return lambda rng: tny.RelayPacket(
        id=rng.randrange(1, 10**6), time=_time(rng), arguments=arguments(rng)
    )


def _instance(rng: random.Random) -> int:
    return 7_000_000_000_000 + rng.randrange(20)


def _tunnel(rng: random.Random) -> int:
    return rng.getrandbits(62)


def _tunnel_connect(rng: random.Random) -> tny.TunnelConnect:
    size = 4 if rng.random() < 0.8 else 16
    port = rng.randrange(1024, 65_536)
    return tny.TunnelConnect(
        ip=rng.randbytes(size), port=port, instance_id=_instance(rng), tunnel_id=_tunnel(rng)
    )


def _link_open(rng: random.Random) -> tny.LinkOpen:
    return tny.LinkOpen(
        service=f"gateway-{rng.choice(_CITIES)}",
        instance=_instance(rng),
        key=_hex(rng, 16),
        service_type=rng.randrange(1, 90),
    )


def _relay_message(rng: random.Random) -> tny.TunnelRelay:
    return tny.TunnelRelay(_instance(rng), _tunnel(rng), _tny_message(rng))


def _connected(rng: random.Random) -> tny.TunnelConnected:
    return tny.TunnelConnected(result=True, instance_id=_instance(rng), tunnel_id=_tunnel(rng))


def _disconnect(rng: random.Random) -> tny.TunnelDisconnect:
    return tny.TunnelDisconnect(instance_id=_instance(rng), tunnel_id=_tunnel(rng))


def _switch(rng: random.Random) -> tny.TunnelSwitchLink:
    return tny.TunnelSwitchLink(instance_id=_instance(rng), tunnel_id=_tunnel(rng))


_RELAY: tuple[tuple[int, None, Draw], ...] = (
    (68, None, _relayed(_relay_message)),
    (7, None, _relayed(_tunnel_connect)),
    (7, None, _relayed(_connected)),
    (6, None, _relayed(_disconnect)),
    (2, None, _relayed(_switch)),
    (2, None, _relayed(_link_open)),
    (2, None, _relayed(lambda r: tny.LinkOpened(result=r.random() < 0.9))),
    (1, None, _relayed(lambda _: tny.LinkClose())),
    (3, None, _relayed(lambda _: tny.LinkPing())),
    (3, None, _relayed(lambda _: tny.LinkPong())),
)


# -- magline ---------------------------------------------------------------------------------


def _framed(body: Draw, **options: Draw) -> Draw:
    return lambda rng: magline.Frame(
        seq=rng.randrange(1, 100_000),
        body=body(rng),
        **{name: draw(rng) for name, draw in options.items()},
    )


def _data(kind: type[magline.Req] | type[magline.Rep] | type[magline.Psh]) -> Draw:
    return lambda r: kind(r.randrange(1, 5_000), r.randbytes(16), _blob(r, 12, 140))


def _tag(rng: random.Random) -> bytes:
    return rng.randbytes(16)


def _resume(rng: random.Random) -> magline.Resume:
    return magline.Resume(rng.randbytes(16), rng.randbytes(16))


def _syn(rng: random.Random) -> magline.Syn:
    return magline.Syn(rng.randbytes(32), rng.randbytes(32))


def _ack(rng: random.Random) -> magline.Ack:
    return magline.Ack(rng.randbytes(32), rng.randbytes(32), rng.randbytes(32))


def _number(rng: random.Random) -> int:
    return rng.randrange(1, 100_000)


_MAGLINE: tuple[tuple[int, None, Draw], ...] = (
    (30, None, _framed(_data(magline.Req))),
    (30, None, _framed(_data(magline.Rep), reply_to=_number)),
    (18, None, _framed(_data(magline.Psh))),
    (6, None, _framed(lambda r: magline.Pin(_number(r)), auth=_tag)),
    (6, None, _framed(lambda r: magline.Pon(_number(r)), auth=_tag)),
    (3, None, _framed(lambda r: magline.Err(_number(r), 15), auth=_tag, reply_to=_number)),
    (2, None, _framed(_syn)),
    (1, None, _framed(_syn, resume=_resume)),
    (2, None, _framed(_ack)),
    (2, None, _framed(lambda _: magline.Fin(), auth=_tag)),
)


# -- ESNP ------------------------------------------------------------------------------------

_V = esnp.VarType


def _var(kind: int, value: object) -> esnp.Var:
    return esnp.Var(int(kind), value)


def _string(text: str) -> esnp.Var:
    return _var(_V.LEN_STRING, text)


def _order(rng: random.Random) -> esnp.Var:
    """A map as business code sends it: texts, numbers, a list."""
    tags = tuple(_string(rng.choice(_NAMES)) for _ in range(rng.randint(1, 3)))
    return _var(
        _V.MAP,
        (
            ("id", _var(_V.INT64, rng.getrandbits(50))),
            ("city", _string(rng.choice(_CITIES))),
            ("price", _var(_V.FLOAT64, rng.randrange(10**6) / 100)),
            ("paid", _var(_V.BOOL, rng.random() < 0.5)),
            ("tags", _var(_V.LIST, tags)),
        ),
    )


def _head(rng: random.Random, flag: esnp.FlagType) -> list[esnp.Row]:
    return [esnp.MessageId(rng.getrandbits(40)), esnp.Flag(int(flag))]


def _address(rng: random.Random) -> list[esnp.Row]:
    kinds = esnp.AddressKind
    return [
        esnp.Address(int(kinds.SERVICE), f"shop.{rng.choice(_NAMES)}"),
        esnp.Address(int(kinds.OP), rng.choice(("get", "put", "list"))),
    ]


def _call(rng: random.Random) -> esnp.Message:
    rows = [*_head(rng, esnp.FlagType.REQUEST), *_address(rng)]
    rows.append(esnp.Header("trace", _string(_hex(rng, 8))))
    rows.append(esnp.Data("page", _var(_V.INT32, rng.randrange(300))))
    rows.append(esnp.Data("order", _order(rng)))
    return esnp.Message(tuple(rows))


def _answer(rng: random.Random) -> esnp.Message:
    rows = [*_head(rng, esnp.FlagType.RESP), esnp.SourceMessageId(rng.getrandbits(40))]
    rows.append(esnp.Data("total", _var(_V.UINT32, rng.randrange(10**6))))
    rows.append(esnp.Data("order", _order(rng)))
    return esnp.Message(tuple(rows))


def _failure(rng: random.Random) -> esnp.Message:
    rows = [*_head(rng, esnp.FlagType.RESP), esnp.SourceMessageId(rng.getrandbits(40))]
    rows.append(esnp.Error(f"no such {rng.choice(_NAMES)}"))
    return esnp.Message(tuple(rows))


def _event(rng: random.Random) -> esnp.Message:
    rows = [*_head(rng, esnp.FlagType.EVENT), *_address(rng), esnp.Version(1, 4, 0, 2)]
    rows.append(esnp.SessionInfo("user", _var(_V.INT, rng.randrange(10**5))))
    rows.append(esnp.Header("node", _string(_hex(rng, 4))))
    rows.append(esnp.SeqNo(rng.randint(1, 9), 9))
    rows.append(esnp.Payload(_json(rng)))
    return esnp.Message(tuple(rows))


_ESNP: tuple[tuple[int, None, Draw], ...] = (
    (40, None, _call),
    (35, None, _answer),
    (20, None, _event),
    (5, None, _failure),
)


# -- all of them -----------------------------------------------------------------------------

Mix: TypeAlias = tuple[tuple[int, Direction | None, Draw], ...]

_MIXES: dict[str, tuple[Protocol, Mix]] = {
    "comet": (COMET_PROTOCOL, _COMET),
    "tny": (TNY_PROTOCOL, _TNY),
    "relay": (RELAY_PROTOCOL, _RELAY),
    "magline": (MAGLINE_PROTOCOL, _MAGLINE),
    "esnp": (ESNP_PROTOCOL, _ESNP),
}

PROTOCOLS = tuple(_MIXES)
"""The names that a corpus exists for."""


def corpus(name: str, size: int = SIZE) -> Corpus:
    """The corpus of a protocol: the same for the same size, whenever it is made."""
    protocol, mix = _MIXES[name]
    rng = random.Random(f"{SEED} {name}")
    draws = [(direction, draw) for weight, direction, draw in mix for _ in range(weight)]
    picked = [draws[index % len(draws)] for index in range(size)]
    rng.shuffle(picked)
    return Corpus(protocol, tuple(_sample(protocol, draw(rng), way) for way, draw in picked))


def _sample(protocol: Protocol, drawn: Any, direction: Direction | None) -> Sample:
    message, inner = drawn if isinstance(drawn, tuple) else (drawn, None)
    return Sample(message, protocol.encode(message), direction, inner)
