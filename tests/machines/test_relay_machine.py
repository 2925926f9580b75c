"""A gateway and a game server with changing links between them, and users behind the gateway.

Invariants: a message reaches its own user's tunnel at most once and in order; on clean wires
it is lost only with its link, or with a fault that says so; only documented codes appear; when all
is delivered both ends agree on the tunnels of every link that lives.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.machines.wire import Wire

from wirelake.protocols.sansio import Closed, Event, Failed, SessionError
from wirelake.protocols.tny.codec_seed import write_message
from wirelake.protocols.tny.layout import LinkOpen, Message, Mode
from wirelake.protocols.tny.limits import GatewayOptions, RegistryLimits, RelayServerOptions
from wirelake.protocols.tny.message import ResultCode
from wirelake.protocols.tny.relay_gateway import GatewayLink, GatewayTunnels
from wirelake.protocols.tny.relay_link import LinkUp, Relayed, RelayLink, TunnelKey
from wirelake.protocols.tny.relay_server import LinkRegistry, ServerLink

DOCUMENTED = {
    "bad_length",
    "bad_magic",
    "bad_state",
    "idle",
    "int_range",
    "invalid_utf8",
    "bad_arguments",
    "length_overrun",
    "negative_length",
    "reserved_value",
    "short",
    "timeout",
    "too_busy",
    "too_large",
    "trailing_bytes",
    "unexpected_reply",
    "unknown_type",
    "varint_overflow",
    "varint_truncated",
}
INSTANCE = 1001
LIMIT = 2048
PER_LINK = 4
MOST_USERS = 8
MOST_LINKS = 4


class Cable:
    """One link: both its ends, and the wires between."""

    def __init__(self, gateway: GatewayLink, server: ServerLink):
        self.gateway = gateway
        self.server = server
        self.up = Wire(gateway, server)
        self.down = Wire(server, gateway)
        self.closed: dict[RelayLink, Closed] = {}

    @property
    def ends(self) -> tuple[RelayLink, RelayLink]:
        return self.gateway, self.server

    @property
    def clean(self) -> bool:
        return self.up.clean and self.down.clean

    def deliver(self, now: float) -> bool:
        """Deliver everything; return whether there was anything."""
        moved = self.gateway.dirty or self.server.dirty or bool(self.up.bytes or self.down.bytes)
        self.up.deliver(1 << 20, now)
        self.down.deliver(1 << 20, now)
        return moved

    def cut(self) -> None:
        """Lose the connection with its bytes in flight."""
        for wire in (self.up, self.down):
            wire.load()
            wire.end()


class RelayMachine(RuleBasedStateMachine):
    """One gateway and one server."""

    @initialize(dialect=st.sampled_from(["seed", "upstream", "auto"]), hostile=st.booleans())
    def start(self, dialect: Any, hostile: bool) -> None:
        self.dialect = dialect
        self.hostile = hostile
        self.now = 0.0
        self.tunnels = GatewayTunnels(INSTANCE, max_tunnels=MOST_USERS)
        self.registry = LinkRegistry(RegistryLimits(max_links=MOST_LINKS, max_tunnels=MOST_USERS))
        self.cables: list[Cable] = []
        self.serial = 0
        self.users = 0
        self.sent: dict[tuple[type, TunnelKey], list[bytes]] = {}
        self.got: dict[tuple[type, TunnelKey], list[bytes]] = {}
        self.faults: list[Failed] = []
        self.lossless = True

    # -- links -------------------------------------------------------------------------------

    @rule()
    def dial(self) -> None:
        if len(self.cables) >= MOST_LINKS + 1:
            return
        self.serial += 1
        gateway = GatewayLink(
            self.tunnels,
            service="game",
            opening=LinkOpen(service="gate", instance=INSTANCE, key=f"throw-away-{self.serial}"),
            options=GatewayOptions(dialect=self.dialect, max_packet=LIMIT, max_tunnels=PER_LINK),
            now=self.now,
        )
        options = RelayServerOptions(dialect=self.dialect, max_packet=LIMIT, max_tunnels=PER_LINK)
        self.cables.append(Cable(gateway, ServerLink(self.registry, options, now=self.now)))

    @precondition(lambda self: self.cables)
    @rule(which=st.integers(0, 9))
    def cut(self, which: int) -> None:
        self.lossless = False
        self.cables[which % len(self.cables)].cut()

    @precondition(lambda self: self.cables)
    @rule(which=st.integers(0, 9), at_server=st.booleans())
    def close(self, which: int, at_server: bool) -> None:
        cable = self.cables[which % len(self.cables)]
        cable.ends[at_server].close(now=self.now)

    # -- users -------------------------------------------------------------------------------

    def keys(self) -> list[TunnelKey]:
        return [TunnelKey(INSTANCE, n) for n in range(1, self.users + 1)]

    @rule()
    def come(self) -> None:
        self.users += 1  # ids of connections are not used again
        try:
            code = self.tunnels.connect("game", self.users, port=self.users, now=self.now)
        except SessionError:
            assert self.tunnels.tunnel_count == MOST_USERS
            return
        assert code in {ResultCode.SUCCESS, ResultCode.NO_LINK}

    @precondition(lambda self: self.users)
    @rule(user=st.integers(0, 99), from_server=st.booleans())
    def go(self, user: int, from_server: bool) -> None:
        key = self.keys()[user % self.users]
        if not from_server:
            self.tunnels.disconnect(key.tunnel_id, now=self.now)
        elif self.registry.tunnel(key) is not None:
            self.registry.disconnect(key, now=self.now)

    @precondition(lambda self: self.users)
    @rule(user=st.integers(0, 99), raw=st.booleans())
    def ask(self, user: int, raw: bool) -> None:
        key = self.keys()[user % self.users]
        if not self.tunnels.has("game", key):
            return
        message, data = self.message()
        code = self.tunnels.relay("game", key.tunnel_id, data if raw else message, now=self.now)
        if code == ResultCode.SUCCESS:
            self.sent.setdefault((ServerLink, key), []).append(message.body or b"")
        else:
            assert not any(c.gateway.active and not c.gateway.full for c in self.cables)

    @precondition(lambda self: self.users)
    @rule(user=st.integers(0, 99), raw=st.booleans())
    def tell(self, user: int, raw: bool) -> None:
        key = self.keys()[user % self.users]
        message, data = self.message()
        try:
            self.registry.relay(key, data if raw else message, now=self.now)
        except SessionError:
            tunnel = self.registry.tunnel(key)
            assert tunnel is None or tunnel.link is None
            return
        self.sent.setdefault((GatewayLink, key), []).append(message.body or b"")

    def message(self) -> tuple[Message, bytes]:
        self.serial += 1
        message = Message(id=self.serial, mode=Mode.PUSH, protocol=1, body=b"%d" % self.serial)
        return message, write_message(message)

    # -- the network -------------------------------------------------------------------------

    @precondition(lambda self: self.cables)
    @rule(which=st.integers(0, 9), downward=st.booleans(), size=st.integers(1, 80))
    def deliver(self, which: int, downward: bool, size: int) -> None:
        cable = self.cables[which % len(self.cables)]
        (cable.down if downward else cable.up).deliver(size, self.now)

    @rule()
    def deliver_all(self) -> None:
        for _ in range(20):
            moved = [cable.deliver(self.now) for cable in self.cables]
            self.collect()
            if not any(moved):
                break

    @rule(seconds=st.sampled_from([1.0, 5.0, 70.0]))
    def wait(self, seconds: float) -> None:
        """Advance time with a fast network."""
        for _ in range(int(seconds)):
            self.now += 1.0
            for cable in self.cables:
                for link in cable.ends:
                    link.on_timer(self.now)
            self.registry.on_timer(self.now)
            self.deliver_all()

    @precondition(lambda self: self.hostile and self.cables)
    @rule(
        which=st.integers(0, 9),
        downward=st.booleans(),
        at=st.integers(0, 500),
        how=st.sampled_from(["corrupt", "drop", "duplicate"]),
        much=st.integers(1, 255),
    )
    def corrupt(self, which: int, downward: bool, at: int, how: str, much: int) -> None:
        cable = self.cables[which % len(self.cables)]
        wire = cable.down if downward else cable.up
        getattr(wire, how)(at, much)

    # -- what must hold ----------------------------------------------------------------------

    def collect(self) -> None:
        for event in self.registry.events():
            assert event.reason == "expired"  # type: ignore[attr-defined]
        for cable in list(self.cables):
            for link in cable.ends:
                for event in link.events():
                    self.take(cable, link, event)
            self.follow(cable)

    def take(self, cable: Cable, link: RelayLink, event: Event) -> None:
        assert link not in cable.closed, f"{event} after the end"
        match event:
            case Relayed(key, message, _):
                self.got.setdefault((type(link), key), []).append(message.body or b"")
            case Failed(code):
                assert code in DOCUMENTED, event
                self.faults.append(event)
            case Closed(reason):
                assert reason
                cable.closed[link] = event
            case LinkUp():
                assert not cable.clean or cable.server.link_id == cable.gateway.link_id

    def follow(self, cable: Cable) -> None:
        """A transport closes when its session has; the other end gets what was written, and eof."""
        for link, wire in ((cable.gateway, cable.up), (cable.server, cable.down)):
            if link.closed and not wire.ended:
                wire.deliver(1 << 20, self.now)
                wire.end()
        if cable.gateway.closed and cable.server.closed:
            for end in cable.ends:
                for event in end.events():
                    self.take(cable, end, event)
            assert len(cable.closed) == 2
            self.cables.remove(cable)

    @invariant()
    def within_limits(self) -> None:
        if not hasattr(self, "cables"):
            return
        self.collect()
        assert self.tunnels.tunnel_count <= MOST_USERS
        assert self.registry.tunnel_count <= MOST_USERS
        assert len(self.registry.links) <= MOST_LINKS
        for cable in self.cables:
            for link in cable.ends:
                assert link.buffered <= LIMIT + 7
                assert len(link.tunnels) <= PER_LINK
                assert len(link.timers) <= 2

    @invariant()
    def each_message_once_and_to_its_user(self) -> None:
        if not hasattr(self, "cables") or self.hostile:
            return
        for place, bodies in self.got.items():
            sent = self.sent.get(place, [])
            assert len(set(bodies)) == len(bodies)
            assert set(bodies) <= set(sent)

    def teardown(self) -> None:
        if not hasattr(self, "cables"):
            return
        self.deliver_all()
        self.within_limits()
        if not self.hostile:
            self.agree()
            if self.lossless:
                self.nothing_lost()
        for cable in list(self.cables):
            cable.cut()
        self.collect()
        assert self.cables == []
        assert self.registry.links == {}
        self.registry.on_timer(self.now + 1000)
        assert self.registry.tunnel_count == 0

    def agree(self) -> None:
        for cable in self.cables:
            if cable.gateway.active:
                assert cable.server.active
                assert cable.server.tunnels <= cable.gateway.tunnels
                for key in cable.gateway.tunnels - cable.server.tunnels:
                    # Switched twice, one overtook the other: the next message mends it.
                    tunnel = self.registry.tunnel(key)
                    assert tunnel is not None
                    assert tunnel.link is None

    def nothing_lost(self) -> None:
        missing = sum(map(len, self.sent.values())) - sum(map(len, self.got.values()))
        dropped = [fault for fault in self.faults if fault.field == "tunnel_relay"]
        assert missing == len(dropped)


TestRelayMachine = RelayMachine.TestCase
TestRelayMachine.settings = settings(stateful_step_count=40)
