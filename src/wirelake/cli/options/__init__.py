"""Options that several commands share.

- `common`: click settings, protocols and dialects, NAME=VALUE pairs, input files.
- `reading`: capture files, ports and keys, for commands that read captures.
- `amounts`: option types for sizes, durations, times and fractions.
"""
