"""Connections: what is the same for every protocol.

Read in this order:

    connection      bytes in, session, events, bytes out
    outbox          one write per connection and turn of the loop
    pending_flush   connections whose sessions got something to send from another connection
    deadline_scan   timeouts, without a timer per connection
    table           which connections are open or may be accepted
    listener        a listening socket for one protocol
    tls             server-side TLS contexts
    context         the parts of the hub that listeners and connections use

It may import `hub.rpc`, `hub.auth`, `hub.pubsub` and what is below them; never `hub.listeners`,
`hub.hub` or `hub.admin`. No protocol is named here.
"""
