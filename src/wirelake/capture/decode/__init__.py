"""From reassembled streams to rows of `messages`, `faults` and `coverage`: the reference decoder.

In reading order: `reference` (`read_tables`, the entry point), `conversation` (one connection),
`protocol_selector` (its protocol), `framing` and `streams` (frames of a stream, and how reading
resumes after a fault; byte counts), `decryption` (keys and sealed parts), `messages` (rows),
`events` (beginnings and ends of connections). It is slow and simple; `wirelake.columnar` must give
the same rows.

Nothing here knows a particular protocol: layouts and meanings come from the registry.
"""
