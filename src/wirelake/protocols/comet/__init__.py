"""comet (seed 004): mobile push with authentication, topics, offline notifications and acks.

Besides the files that every protocol has, in reading order:

    arguments.py   what the arguments of a command may be
    sealing.py     key exchange and sealed notification content
    endpoint.py    what client and server share; `client.py`, `server.py`
    decryption.py  reading captured notifications with a key log
"""
