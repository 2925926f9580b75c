"""Publish/subscribe: topics, clients, their inboxes, and delivery.

Read in this order:

    notifications   requests to publish, their checks; numbers and ids of notifications
    subscriptions   topics, clients, subscriptions and inboxes in memory; `Receiver`, a connection
    keys            idempotency keys of publishers
    publishing      from a request to the publish queue, which keeps the order of numbers
    delivery        stored notifications to clients, acknowledgements; fan-out of transient ones
    quota           no backlog is longer than its limit
    subscribing     changes of subscriptions
    sweep           expiry and deletion
    topics          builds and connects all of these

It may import `hub.store`, `hub.observe`, `hub.config` and `hub.errors`. Connections are known by
the protocol class `subscriptions.Receiver`, never by `hub.net` or `hub.listeners`.
"""
