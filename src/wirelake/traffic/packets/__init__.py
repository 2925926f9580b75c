"""Packets: from a scene template to capture files.

    numbers.py            ids, addresses and ports of constant width
    packet_template.py    the packets of a template, and the columns in which instances differ
    recorded.py           packets in the style of the recorder
    sniffed.py            packets in the style of tcpdump
    instances.py          many instances of a template
    writer.py             all packets of a shard as files

No module here names a protocol or knows what a message means.
"""
