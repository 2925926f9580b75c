"""Publish/subscribe: topics, clients, their inboxes, and delivery.

Read in this order:

    notifications   what is published and delivered, and which requests are refused
    numbering       numbers and ids of notifications
    inbox           what one client was sent and has acknowledged: cursor, spans, holes
    subscriptions   topics, clients and subscriptions in memory; `Receiver`, a connection
    registry        all topics and clients, loaded from the store
    publishing      from a request to the publish queue
    publish_queue   the order of numbers: what waits for its commit, and what waits behind it
    fanout          one notification to many connections: encoded once
    delivery        stored notifications to clients, live or from their backlog; acknowledgements
    subscribing     changes of subscriptions
    sweep           expiry, quotas, deletion
    topics          builds and connects all of these

It may import `hub.store`, `hub.observe`, `hub.limits` and `hub.errors`. Connections are known by
the protocol class `subscriptions.Receiver`, never by `hub.net` or `hub.listeners`.
"""
