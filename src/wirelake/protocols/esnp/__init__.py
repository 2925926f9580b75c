"""ESNP in both revisions, frames (seed 000) and lines (seed 001).

Besides the files that every protocol has, in reading order:

    message.py          kind, address, reply and strict checks of one message
    message_summary.py  the same questions in one pass, for sessions; `replies.py` the same reply
    sequences.py        parts of a message by SEQ_NO
    requests.py         the peer's requests; `fast_path.py` and `templates.py` answer repeated ones
    session.py          our own calls, and the session as a whole
    routing.py          forwarding messages without decoding their bodies
    address.py          `esnp://` addresses
    values.py, basic.py `Var` and Python values; the basic types by the names of the documents
    application.py      an application's own rows and flags
"""
