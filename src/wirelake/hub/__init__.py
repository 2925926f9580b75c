"""The live server: listeners for every protocol, services, topics and inboxes.

From the top down; a module imports only from those below it (import-linter checks that, and a test
that there are no cycles):

    run          a hub as a process: event loop, signals, output
    preflight    checks before a start: addresses, certificates, folders
    admin/       HTTP: publish, health, metrics, state
    hub          builds the parts and connects them
    listeners/   one per protocol: its connections, and what it does with their events
    net/         connections, the connection table, listeners, TLS
    rpc/         services, and the hub's own calls
    auth         sign-on with ids and tokens; key files
    signed_tokens/   tokens that others sign (JWT), and their keys
    pubsub/      topics, clients, inboxes, delivery
    observe/     counters, recordings, live decoding
    store/       what survives a crash: clients, subscriptions, the log, inboxes
    rights       rights and rates of clients
    config       hub.toml and its limits
    roles        what users of the HTTP interface may do
    errors       the error codes

A connection is driven by a sans-IO session (`wirelake.protocols`): the hub feeds it bytes and the
time and acts on its events. To follow a publish, read `listeners/esnp`, `rpc/hub_calls`,
`pubsub/publishing`, `store/writer`, `pubsub/delivery`.

It may import `wirelake.capture` and what is below it. It may not import `wirelake.client`,
`wirelake.columnar`, `wirelake.tables` or anything above them. Parts get what they need as
arguments; only `hub.hub`, `hub.run` and `hub.admin` know `Hub`.
"""
