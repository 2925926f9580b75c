"""Conformance: run files of test vectors against the protocols (`wirelake conform`).

    runner.py       reads the files, runs each vector, prints the report
    expectation.py  a vector and what it expects, compared key by key; an unread key is a failure
    esnp.py, tny.py, magline.py, comet.py
                    one adapter per protocol: `run(vector, context)`, and `CLASSES`, the error
                    classes that its vectors may name

Read `runner.py` first, then one adapter. Only the command line imports this package; it imports
`protocols` and `wire` only. `tests/conformance` alters every vector, to test that the vectors would
detect a wrong implementation.
"""
