"""TCP/IP: headers of packets, connections, and reassembly of streams.

`headers` finds the TCP segment of a packet, `connections` assigns segments to connections,
`assembly` puts the bytes of one direction in order. `synthesis` makes packets, for the recorder and
for tests.

Nothing here knows protocols above TCP.
"""
