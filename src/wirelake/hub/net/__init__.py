"""Connections: what is the same for every protocol.

Read in this order:

    connection   the base class of connections: bytes in, session, events, bytes out
    outbox       one write per connection and turn of the loop
    table        which connections are open or may be accepted; the scan for expired deadlines
    budget       bytes in memory for each client, each address and the hub
    acceptor     listening sockets, and TLS handshakes
    memory       memory that is returned to the system after a storm
    listener     the base class of listeners: acceptors and TLS contexts
    context      the parts of the hub that listeners and connections use

It may import `hub.rpc`, `hub.auth`, `hub.pubsub` and what is below them; never `hub.listeners`,
`hub.hub` or `hub.admin`. No code here depends on a protocol.
"""
