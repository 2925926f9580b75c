"""tny (seed 002): messages of game clients and servers, and the relay of gateways and servers.

In reading order (sections refer to `docs/decisions/tny.md`):

    layout.py           every field of packets, messages and relay packets
    protocol.py         what they mean, and the two protocols, `tny` and `relay`
    limits.py           limits and options of sessions and links
    transform.py        numbers, check codes, encryption and waste of a packet (§3, §4), and the
                        `Opener` that removes them in captures
    message.py          one Message: bytes, headers, result codes, and requests in flight
    packets.py          bytes of a connection to messages and back, in either dialect
    endpoint.py         events, and what client and server share
    fast_path.py        requests answered while they are read, from templates
    session.py          client, server, and the gateway's end of a user's connection
    relay_link.py       a link between gateway and game server (§5): events, what both ends share
    relay_gateway.py    the gateway's end, and its users' tunnels
    relay_server.py     the game server's end, and its registry of links and tunnels
    binding.py          settings, listener, client and error numbers

It imports no other protocol, and nothing above `protocols`.
"""
