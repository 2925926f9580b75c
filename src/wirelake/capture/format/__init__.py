"""Capture files as bytes: pcap and pcapng, reading and writing.

In reading order: `reader` is the entry point and yields the `items` of a file; `files` opens plain
and compressed files; `blocks` decodes the blocks of pcapng; `constants` has the numbers of both
formats and the limits for hostile files; `writer` writes and seals files.

Nothing here knows TCP or protocols.
"""
