"""Packets: from a scene template to capture files.

    numbers.py, hosts.py          ids, addresses and ports of constant width
    packet_template.py            the packets of a template, and a matrix of instances
    recorded.py                   packets in the style of the recorder
    sniffed.py, segments.py       packets in the style of tcpdump
    placement.py                  the columns in which instances differ
    instances.py, sealing.py      many instances of a template
    writer.py                     all packets of a shard as files

No module here names a protocol or knows what a message means.
"""
