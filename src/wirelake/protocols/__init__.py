"""The protocols: layouts, meanings and sans-IO sessions of ESNP, tny, magline and comet.

    sansio.py     the base of all sessions: bytes and time in, events and bytes out; read it first
    registry.py   finds protocols by name, built-in ones and those of other packages
    hub_calls.py  the calls that every hub serves itself: names, numbers, arguments, results
    binding.py    what joins a protocol to the hub and to the client
    esnp/ tny/ magline/ comet/

Each of the four packages has the same file names, in reading order:

    layout.py     the declaration of every field, with the section of its document
    protocol.py   what messages mean (`Meaning`), and the `Protocol` made of layout and meaning;
                  codec_seed.py is the generated codec
    limits.py     limits and options of sessions, with the reason for each default
    endpoint.py   the events of a session, and what both ends of a connection share
    session.py    the sessions of both roles, as applications import them
    binding.py    where listener, client and settings of the protocol are

This package imports `wire` and nothing above it; the protocols do not import each other. Nothing
here does I/O, reads a clock or draws random numbers: time, randomness and ids are arguments.
"""
