"""Tools for whole capture files: `info` summarises, `repair` completes unfinished recordings,
`redact` removes secrets and contents."""
