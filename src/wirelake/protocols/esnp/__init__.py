"""ESNP in both revisions, frames (seed 000) and lines (seed 001).

In reading order (sections refer to `docs/decisions/esnp.md`):

    layout.py       every row, `Var` and the message
    protocol.py     what messages mean, and the protocol
    address.py      addresses and their `esnp://` URLs (§4)
    sequences.py    parts of a message by SEQ_NO (§3)
    message.py      kind, address, strict checks and reply of one message, and its summary
    limits.py       limits and options of a session
    endpoint.py     events, and the peer's side of a connection
    fast_path.py    requests answered while they are read, from templates
    session.py      our own calls, and the session as a whole
    routing.py      forwarding messages without decoding their bodies (§5)
    values.py       the basic types by name, and Python values as `Var`
    application.py  an application's own rows and flags
    binding.py      settings, listener and client

It imports no other protocol, and nothing above `protocols`.
"""
