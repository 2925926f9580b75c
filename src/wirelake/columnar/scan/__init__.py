"""Capture files to packets, a window of 32 MiB at a time.

In reading order:

    sources.py   where the bytes come from: plain or compressed files, pipes
    blocks.py    kernels over the blocks of pcap and pcapng; the interfaces of a section
    scanner.py   `Scanner`: windows of a file as columns, what is no packet beside them
    headers.py   kernels over link, IP and TCP headers
    index.py     where a large file can be cut for several workers

Knows nothing of connections or protocols.
"""
