"""Export of lakes.

- `export`: links the files of a lake into a folder and updates one table after another.
- `delta`, `iceberg`: the two table formats; each imports its optional package.
"""
