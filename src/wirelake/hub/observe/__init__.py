"""Observation: counters, recordings, and decoding of live traffic.

Read in this order:

    counters       counters and latency histograms, for the admin pages and metrics
    tap            reports what crosses the hub to observers
    access_log     the observer that logs connections, sign-ons and publishes
    recording      the observer that writes capture files
    live_decoder   the observer that decodes, for live tables and `/v1/tail`; masked frames

It may import `hub.config` and the packages below hub. Connections are known by the protocol class
`tap.ObservedConnection`. `recording` and `live_decoder` need pyarrow and are imported when used.
"""
