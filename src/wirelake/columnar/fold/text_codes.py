"""Texts as integer codes: kernels compare codes, and never see a text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .tables import KNOWN, NO

__all__ = ["Texts", "indices_of"]

Codes = NDArray[np.int32]


class Texts:
    """All known texts; the code of a text is its index."""

    def __init__(self, texts: Iterable[str] = ()):
        self.texts: list[str] = []
        self._codes: dict[str | None, int] = {None: NO}
        self._array = pa.array([], pa.string())
        for text in (*KNOWN, *texts):
            self.code(text)

    def __len__(self) -> int:
        return len(self.texts)

    def code(self, text: str | None) -> int:
        """Return the code of a text; NO for None."""
        found = self._codes.get(text)
        if found is None:
            assert text is not None
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def coded(self, texts: Iterable[str | None]) -> Codes:
        """Return the codes of texts."""
        given = list(texts)
        found = list(map(self._codes.get, given))
        if None in found:
            found = list(map(self.code, given))
        return np.array(found, np.int32)

    def codes(self, array: pa.Array) -> Codes:
        """Return the codes of a column."""
        if array.null_count == len(array):
            return np.full(len(array), NO, np.int32)
        indices, dictionary = indices_of(array)
        return np.append(self.coded(dictionary), np.int32(NO))[indices]

    def array(self, codes: Codes) -> pa.Array:
        """Return the column with these codes."""
        if len(self._array) < len(self.texts):
            self._array = pa.array(self.texts, pa.string())
        missing = codes < 0
        return self._array.take(pa.array(codes, mask=missing if missing.any() else None))

    def list_of(self, codes: Iterable[int]) -> list[str | None]:
        """Return the texts with these codes."""
        return [None if code < 0 else self.texts[code] for code in codes]


def indices_of(array: pa.Array) -> tuple[Codes, list[str]]:
    """Return a column as indices into its distinct texts (-1: null), and these texts."""
    encoded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    indices = encoded.indices
    if indices.null_count:
        indices = pc.fill_null(indices, -1)
    return np.asarray(indices.to_numpy(), np.int32), encoded.dictionary.to_pylist()
