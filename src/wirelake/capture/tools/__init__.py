"""Tools for whole capture files: `info` summarises, `repair` makes a valid copy of a damaged file,
`redact` a copy without secrets and contents."""
