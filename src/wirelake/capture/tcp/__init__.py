"""TCP/IP: headers of packets, connections, and reassembly of streams.

In reading order: `headers` finds the TCP segment of a packet (and builds packets), `connections`
assigns segments to connections, `assembly` puts the bytes of one direction in order.

Nothing here knows protocols above TCP.
"""
