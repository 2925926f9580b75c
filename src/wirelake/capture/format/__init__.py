"""Capture files as bytes: pcap and pcapng, reading and writing.

`reader` is the entry point: it yields the `items` of a file. `files` opens plain and compressed
files, `pcap` and `pcapng` parse them, `blocks` has the blocks of pcapng, `constants` the numbers of
both formats, `limits` the bounds for hostile files. `writer` and `output` write and seal files.

Nothing here knows TCP or protocols.
"""
