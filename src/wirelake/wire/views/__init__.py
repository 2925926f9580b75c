"""Views of a declaration: what can be derived from a layout besides its codec.

In reading order:

    _reader.py         single values read directly from bytes, and self-describing values as rows
    _trace_values.py   types, and `_trace_layouts.py` layouts: the bytes of every field. They decode
                       a second time, independent of the generator, and are compared with it in
                       tests
    arrow.py           schemas and rows (pyarrow)
    json.py            messages as JSON and back
    describe.py        a layout as text, for the terminal; names of types and sizes
    markdown.py        reference pages
    lua.py             a Wireshark dissector; `_lua_*.py` and the runtime in `lua_runtime_*.lua`
    colorfilters.py    coloring rules for Wireshark
    ksy.py             Kaitai Struct files; `_ksy_values.py` their values
    strategy.py        Hypothesis strategies

Nothing in `wire` imports a view. A view imports `wire.model`; its optional dependency (pyarrow,
hypothesis) is imported here only. Import a view by the name of its module.
"""
