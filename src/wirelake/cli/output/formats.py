"""Output formats of rows, and the file extensions that stand for them."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

__all__ = ["FORMATS", "output_format"]

FORMATS: Final = ("table", "json", "csv", "parquet", "arrow")
"""Every output format."""
_BINARY: Final = ("parquet", "arrow")
_EXTENSIONS: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}
"""Formats by the extension of the output file."""


def output_format(
    chosen: str | None, output: str | None, format_option: str, output_option: str
) -> str:
    """Return the chosen format, or the default for the output file, terminal or pipe."""
    if chosen is None and output is not None:
        extension = os.path.splitext(output)[1].lower()
        if extension not in _EXTENSIONS:
            raise click.UsageError(
                f"{output}: cannot infer the format; expected an extension of"
                f" {', '.join(_EXTENSIONS)}, or {format_option}"
            )
        chosen = _EXTENSIONS[extension]
    name = chosen or ("table" if sys.stdout.isatty() else "json")
    if name in _BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{name} cannot be written to a terminal: add {output_option} FILE")
    return name
