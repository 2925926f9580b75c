"""Capture files to packets, a window at a time.

In reading order:

    scanner.py   `Scanner`: windows of a file as columns, and the other items between packets
    blocks.py    kernels over the blocks of pcap and pcapng; the interfaces of a section
    headers.py   a kernel over link, IP and TCP headers

Knows nothing of connections or protocols.
"""
