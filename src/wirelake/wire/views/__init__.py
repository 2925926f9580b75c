"""Views of a declaration: what can be derived from a layout besides its codec.

    arrow.py     schemas and rows (pyarrow); `_var_rows.py` flattens self-describing values
    spans.py     which bytes belong to which field; `_reader.py`, `_trace_values.py` and
                 `_trace_layouts.py` read a layout a second time, independent of the generator
    json.py      messages as JSON and back
    describe.py  a layout as text, for the terminal
    markdown.py  reference pages; `_formatting.py` words types and sizes
    lua.py       a Wireshark dissector; `_lua_*.py` and the runtime in `lua_runtime_*.lua`
    ksy.py       Kaitai Struct files; `_ksy_values.py`, `_yaml.py`
    strategy.py  Hypothesis strategies

Read `spans.py` first. Nothing in `wire` imports a view; a view needs `wire.model`, and its optional
dependency (pyarrow, hypothesis) is imported here alone. Import a view by the name of its module.
"""
