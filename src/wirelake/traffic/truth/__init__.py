"""Truth: the tables that a reader of the simulated captures must produce.

    rows.py           rows with constants and values that vary by instance; expansion into Arrow
    messages.py       what a reader makes of one captured stream, and finds in a scene
    connections.py    `connections` and `tunnels`
    calls.py          `calls` and `deliveries`
    tables.py         all tables of a scene, with `coverage`

It is made from the scenes, not by a reader, so that the two can be compared. The matching rules are
those of `docs/concepts/matching.md`, for the single fault that a scene may have.
"""
