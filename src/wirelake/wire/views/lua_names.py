"""Names of layouts and fields inside one protocol of the script, and who has which."""

from __future__ import annotations

from .. import model as m
from ..declare import snake_case
from .lua_text import abbreviation

__all__ = ["Names", "class_name"]


def class_name(cls: type) -> str:
    """What a class that has no model (an opaque row) is called."""
    return abbreviation(getattr(cls, "wire_name", "") or snake_case(cls.__name__))


class Names:
    """Gives each name once; two things of the same name are an error.

    `malformed`, `incomplete` and `unshown` belong to what the dissector itself reports.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.owners: dict[str, object] = dict.fromkeys(("malformed", "incomplete", "unshown"), self)

    def claim(self, name: str, owner: object) -> str:
        """The name, unless another owner has it."""
        if self.owners.setdefault(name, owner) is not owner:
            raise ValueError(
                f"{self.protocol}: two things would be called wirelake.{self.protocol}.{name};"
                " set wire_name on one of the layouts"
            )
        return name

    def layout(self, layout: m.Layout) -> str:
        """The name of a layout."""
        return self.claim(abbreviation(layout.name), layout.cls)

    def dynamic(self, kind: m.Dynamic) -> str:
        """The name of a dynamic type."""
        return self.claim(abbreviation(kind.name), kind.cls)
