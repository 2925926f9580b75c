"""From reassembled streams to rows of `messages`, `faults` and `coverage`: the reference decoder.

Read in this order: `reference` (`read_tables`, the entry point), `conversation` (one connection),
`protocol_selector` (which protocol it has), `framing` and `streams` (frames of a stream, and how
reading resumes after a fault), `keys` and `decryption` (sealed parts), `messages` (rows),
`coverage` (byte counts). It is slow and simple; `wirelake.columnar` must give the same rows.

Nothing here knows a particular protocol: layouts and meanings come from the registry.
"""
