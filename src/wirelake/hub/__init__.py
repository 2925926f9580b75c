"""The live server: one hub, five protocols, services, topics and inboxes.

    listeners/      one listener and one kind of connection for each protocol
    services    Python functions that can be called from any of them
    topics      who gets what is published; inboxes, what each client has not acknowledged
    store/      what survives: clients, subscriptions, the log, cursors
    admin/      HTTP: publish, health, metrics, a look inside

A connection is driven by a sans-IO session (`wirelake.protocols`); the hub gives it bytes and the
time and acts on its events.
"""
