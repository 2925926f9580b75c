"""From layouts to code: real Python files, readable and committed.

`reader.py` and `writer.py` make one function each for a layout, `frames.py` the functions that
find and decode whole frames in a stream, `module.py` puts them into a file, `load.py` finds or
makes that file. A columnar generator will stand beside `reader.py` and walk the same model.
"""
