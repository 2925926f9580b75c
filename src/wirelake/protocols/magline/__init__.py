"""magline (seed 003): encrypted long-lived connections.

Besides the files that every protocol has, in reading order:

    handshake.py    SYN and ACK: key agreement, tags and binders
    records.py      sealed frames after it: sequence numbers, HMAC, AUTH tags
    resumption.py   sessions that continue on another connection; `credentials.py` their keys
    endpoint.py     what client and server share; `client.py`, `server.py`
    decryption.py   reading captured frames with a key log
"""
