"""tny (seed 002): messages of game clients and servers, and the relay of gateways and servers.

Besides the files that every protocol has, in reading order:

    transform.py        verify, encrypt and waste of a packet (§3, §4); `decryption.py` for captures
    packets.py          packets of a connection to messages and back, in either dialect
    message.py          one Message: bytes, headers, result codes; `body_codec.py` common bodies
    calls.py            requests that wait for a response
    sender.py           the sending half of a connection, `endpoint.py` the receiving half
    fast_path.py        requests answered while they are read; `templates.py` their repeated bytes
    session.py          clients, servers, and the gateway towards its users
    relay_link.py       a link between gateway and server (§5); `relay_gateway.py` and
                        `relay_server.py` its ends, `relay_events.py` their events, `relay.py` all
"""
