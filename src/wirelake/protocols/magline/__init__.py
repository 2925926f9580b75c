"""magline (seed 003): encrypted long-lived connections.

In reading order (sections refer to `docs/decisions/magline.md`):

    layout.py       head, options and the nine commands
    protocol.py     what frames mean, and the protocol
    records.py      protection of frames: Seq, HMAC, AUTH tags (§4.5 to 4.7), and the `Opener` of
                    captures
    handshake.py    SYN and ACK: key agreement, key schedule, binders (§4.2 to 4.4, 4.10)
    limits.py       limits and options of sessions
    endpoint.py     messages, events, and what client and server share
    resumption.py   sessions that continue on another connection, and the keys of both ends
    client.py       the client's end; `server.py` the server's
    session.py      the names that applications import
    binding.py      settings, listener, client and error numbers

It imports no other protocol, and nothing above `protocols`.
"""
