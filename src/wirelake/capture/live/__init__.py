"""Captures that still arrive: `inputs` (pipes and growing files), `programs` (dumpcap, tcpdump),
`feed` (their bytes as the readers of formats take them)."""
