"""The recorder: writes what a hub sends and receives as pcapng with synthetic TCP/IP headers.

`recorder` is the entry point; `masking` replaces secret fields by zeros, for the recorder of a hub
and for `tools/redact`.
"""
