"""Generated pages of the reference: `python -m tools.pages docs/reference [--check]`.

    __main__.py      writes all pages, or lists those that are out of date
    sessions.py      the state tables of the sessions
    tables.py        a page for each table; table_texts.py has the queries and texts of these pages
    commands.py      the command line
    python.py        the modules that programs may import
    config.py        the configuration of a hub and its error codes
    http.py          the HTTP interface of a hub, and its metrics
    coverage.py      what the documents define, and the test that uses each part of it

The pages of protocols come from `wirelake.wire.views.markdown`, which users have as
`wirelake protocols reference`. `make pages` runs this; a test fails when a page is out of date.
"""
