"""The code generator: layouts to Python source that a person can read and a profiler can attribute.

In reading order:

    code.py      lines of code, names and `struct` formats; the option area of a head
    reader.py    the decoding function of a layout, and of a message made of rows
    writer.py    the encoding function of a layout
    protobuf.py  both, for protobuf layouts
    frames.py    scanning and decoding whole frames in a stream
    dynamic.py   self-describing values; loading a codec from its committed file or from the cache
    module.py    one file of all of it, for a protocol in one dialect, or for a single layout
    __main__.py  writes the committed files

Read `reader.py` next to a generated file (`protocols/comet/codec_seed.py`). Kernels are generated
from the same model in `columnar/generate`. This package imports `wire` only.

Why source files: interpreting the model for each message would be several times slower
(`benchmarks/results/wire.json`: a comet message decodes in 0.7 µs, where Construct, which interprets
its declarations, takes 18 µs, and its compiled form 3.9 µs), and code made by `exec` without a file
shows in no traceback or profile and cannot be cached by Numba.
"""
