"""The Spark data source `wirelake`: batch and streaming readers of captures.

- `source`: what Spark calls: the batch readers, the stream reader, and their tasks.
- `options`: parses and checks the options.
- `paths`: which captures are read, offsets of a stream, the table `files`.
- `pruning`: files that need not be read.

Decoding is `wirelake.columnar.read`. This package does not import `wirelake.lake.engine`.
"""
