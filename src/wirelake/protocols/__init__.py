"""The protocols: layouts, meanings and sans-IO sessions of ESNP, tny, magline and comet.

    sansio.py    the base of all sessions: bytes and time in, events and bytes out; read it first
    registry.py  finds protocols by name, built-in ones and those of other packages
    esnp/ tny/ magline/ comet/

Each of the four packages has the same file names, in reading order:

    layout.py    the declaration of every field, with the section of its document
    meaning.py   what messages mean to tables: kinds, correlation, targets, secrets, seals
    protocol.py  the `Protocol` made of both; codec_seed.py is its generated codec
    limits.py    limits and options of sessions, with the reason for each default
    events.py    what a session reports
    session.py   the sessions of both roles
    binding.py   where listener, client and settings of the protocol are

The protocols do not import each other, and nothing here does I/O, reads a clock or draws random
numbers: time, randomness and ids are arguments.
"""
