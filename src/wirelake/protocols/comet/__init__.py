"""comet (seed 004): mobile push with authentication, topics, offline notifications and acks.

In reading order (rules and sections refer to `docs/decisions/comet.md`):

    layout.py      every command and field
    protocol.py    what commands mean, and the protocol
    arguments.py   validation of the arguments of a command
    limits.py      limits and options of sessions, and what fits a frame
    sealing.py     key exchange and sealed content (section 4), and the `Opener` of captures
    endpoint.py    events, and what client and server share
    client.py      the client's end; `server.py` the server's
    session.py     the names that applications import
    binding.py     settings, listener, client and error codes

It imports no other protocol, and nothing above `protocols`.
"""
