"""Scenes: protocol sessions that talk to each other in virtual time.

    scene.py          the virtual clock, connections, the tap that sees their bytes, random content
    provider.py       what a protocol declares, the registry, the entry point group; and a scene
                      that was played, with the slots that vary by instance
    comet, esnp,      the scenarios of each protocol, how their frames are read back, and how
      tny, magline    instances are encrypted anew

Nothing here knows what a packet looks like, except for the columns of encrypted streams
(`packets/packet_template.py`).
"""
