"""An application's own rows (0x80-0xFF) and flags (128 and above).

Implements MT_APP_DEFINE and FLAG_APP_DEFINE of both seeds. The protocol carries such rows as bytes;
an application declares their content with ordinary layout classes:

    class Position(Layout):
        x: VarI32
        y: VarI32

    app = Application(rows={0x80: Position}, flags={128: "URGENT"})
    app.read(OpaqueRow(type=0x80, data=b"\\x02\\x04"))      # Position(x=1, y=2)
    app.row(Position(x=1, y=2))                            # OpaqueRow(type=128, data=b"\\x02\\x04")

Undeclared rows stay bytes. The codec of a layout is generated when it is first used.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from wirelake.wire.errors import DecodeError, EncodeError
from wirelake.wire.types import Layout

from .layout import FlagType, OpaqueRow
from .message import Revision, flag_name

if TYPE_CHECKING:
    from wirelake.wire.generate.module import LayoutCodec

__all__ = ["FIRST_FLAG", "ROW_TYPES", "Application"]

ROW_TYPES: Final = range(0x80, 0x100)
"""MT_APP_DEFINE: the row types that an application may use."""
FIRST_FLAG: Final = 128
"""FLAG_APP_DEFINE: this flag and all above belong to the application."""


class Application:
    """The rows and flags of an application."""

    def __init__(
        self,
        *,
        rows: Mapping[int, type[Layout]] | None = None,
        flags: Mapping[int, str] | None = None,
    ):
        self.rows = dict(rows or {})
        self.flags = dict(flags or {})
        for number, cls in self.rows.items():
            if number not in ROW_TYPES:
                raise ValueError(f"invalid row type {number:#04x}; expected 0x80 to 0xff")
            if not (isinstance(cls, type) and issubclass(cls, Layout)):
                raise ValueError(f"row type {number:#04x}: {cls!r} is not a Layout class")
        for number, name in self.flags.items():
            if not FIRST_FLAG <= number < 1 << 31:
                raise ValueError(f"invalid flag {number} ({name}); expected 128 to 2^31 - 1")
        self._types = {cls: number for number, cls in self.rows.items()}
        if len(self._types) < len(self.rows):
            raise ValueError("a layout class is used for several row types; declare one for each")

    def read(self, row: OpaqueRow) -> Layout:
        """Decode a row. Raises DecodeError; `unknown_type` when the type is not declared."""
        cls = self.rows.get(row.type)
        if cls is None:
            raise DecodeError("unknown_type", "row.type", None, f"{row.type:#04x} is not declared")
        value = _codec(cls).read(row.data)
        assert isinstance(value, Layout)
        return value

    def row(self, value: Layout) -> OpaqueRow:
        """Return the row of a value. Raises EncodeError."""
        number = self._types.get(type(value))
        if number is None:
            raise EncodeError(
                "bad_value", "row", None, f"{type(value).__name__} is not a row of this application"
            )
        return OpaqueRow(type=number, data=_codec(type(value)).write(value))

    def flag(self, name: str) -> int:
        """Return the number of a flag, of the application or of the document. Raises KeyError."""
        for number, known in self.flags.items():
            if known == name:
                return number
        if name in FlagType.__members__:
            return FlagType[name].value
        known_names = [*FlagType.__members__, *self.flags.values()]
        raise KeyError(f"unknown flag {name!r}; expected one of {', '.join(known_names)}")

    def flag_name(self, number: int, revision: Revision = "lines") -> str:
        """Return the name of a flag; one without a name is its number."""
        return self.flags.get(number) or flag_name(number, revision) or str(number)


@functools.cache
def _codec(cls: type[Layout]) -> LayoutCodec:
    from wirelake.wire.generate.module import compile_layout

    return compile_layout(cls)
