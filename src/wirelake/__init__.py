"""Wirelake: private binary TCP protocols, from the wire to the lake.

Packages, in the order of the data. Each imports only from those above it in this list; packages on
one line do not import each other.

    wire                              bytes to values and back: declarations, code generator, errors
    protocols                         layout, meaning, session and binding of each protocol
    records, conformance              table schemas and matching rules; test vectors
    capture                           pcap and pcapng, TCP reassembly, the recorder
    hub, client, columnar, tables     server; clients; captures to Arrow; files of a lake
    lake, traffic                     Spark; simulated traffic
    cli                               the command `wirelake`

`docs/concepts/architecture.md` follows a capture and a call through them. Nothing is imported here:
each package is imported by its own name, and many have optional dependencies.
"""

__version__ = "0.1.0"
