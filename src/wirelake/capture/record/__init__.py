"""The recorder: writes what a hub sends and receives as pcapng with synthetic TCP/IP headers.

`recorder` is the entry point, `templates` has the prepared headers of each connection, `masking`
replaces secret fields by zeros.
"""
