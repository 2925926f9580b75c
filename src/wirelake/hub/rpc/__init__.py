"""Calls: services, and the calls of the hub itself.

Read in this order:

    call_types      what a service gets and returns; typed arguments; deferred replies
    services        functions as services, by name and number
    offers          services of other processes, and which process gets a call
    hub_calls       auth, subscribe, unsubscribe, publish, ack; serve, withdraw, services
    demo_services   the services of `wirelake hub --demo`

It may import `hub.auth`, `hub.pubsub`, `hub.observe` and what is below them; connections are known
by a protocol class (`hub_calls.Caller`), never by `hub.net` or `hub.listeners`.
"""
