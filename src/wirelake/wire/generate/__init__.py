"""From layouts to code: Python source that a person can read and a profiler can attribute.

    code.py      lines under construction; `Structs` collects the `struct` formats
    reader.py    the decoding function of a layout, `writer.py` the encoding one
    options.py, protobuf.py, dynamic.py, rows.py
                 the parts of both that have a form of their own
    frames.py    finding and decoding whole frames in a stream
    module.py    one file of all of it, for a protocol in one dialect
    single.py    the same for a layout that belongs to no protocol
    load.py      the committed file of a default dialect, or a file in the cache folder
    __main__.py  writes the committed files

Read `reader.py` with a generated file (`protocols/comet/codec_seed.py`) beside it. Kernels are
generated from the same model in `columnar/generate`.
"""
