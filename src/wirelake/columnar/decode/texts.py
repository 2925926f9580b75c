"""Columns of `messages` with few different texts, as dictionaries: `coded` and `plain`.

The pipeline yields these columns as Arrow dictionaries of the texts that a batch has. That is what
the meaning of a protocol computes with (`meaning.py`), what a fold wants, and what Parquet stores,
so no text is hashed or copied on the way. Readers yield `plain` batches, whose columns have the
types of the schema, unless they are asked for coded ones.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = ["CODED", "coded", "coded_schema", "plain"]

CODED: Final = frozenset({"direction", "protocol", "kind", "name", "target", "status", "file"})
"""The columns. Others with texts, such as `client`, have a value for each message that has any."""
_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


def coded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of coded batches of `messages`."""
    fields = [field.with_type(_DICTIONARY) if field.name in CODED else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of `messages` with coded columns."""
    arrays = [
        column.dictionary_encode() if name in CODED else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=coded_schema(batch.schema))


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of any table without coded columns."""
    if not any(pa.types.is_dictionary(field.type) for field in batch.schema):
        return batch
    fields, arrays = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        is_coded = pa.types.is_dictionary(field.type)
        fields.append(field.with_type(field.type.value_type) if is_coded else field)
        arrays.append(_texts(column) if is_coded else column)
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, metadata=batch.schema.metadata)
    )


def _texts(column: pa.DictionaryArray) -> pa.Array:
    """Return the texts of a column."""
    if not len(column.dictionary):
        return pa.nulls(len(column), pa.string())
    return column.dictionary.take(column.indices)
