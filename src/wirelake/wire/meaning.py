"""What the messages of a protocol mean, as data: the declaration behind the columns of `messages`.

A protocol's `Meaning` says where the id of a message is, what it answers, what it calls. It is made
of the terms below, which tools evaluate: `wirelake.records` on one decoded message,
`wirelake.columnar` on columns of many. A term has a value, or none.

    MEANING = Meaning(
        kind=Named({"ask": "request", "tell": "response"}),
        message_id=At("number"),
        target=Text(At("ask.what")),
        body="tell.data",
    )

A path such as `auth.client_id` names a field of the frame, or of the body by its name, or of a
stage by its name (`message.id`); `[]` goes through a list (`message_list.messages[].msg_id`). It
has no value where the message has another body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "At",
    "Each",
    "Equal",
    "First",
    "HasRow",
    "If",
    "Is",
    "Join",
    "Meaning",
    "Name",
    "Named",
    "RowField",
    "Term",
    "Text",
    "Values",
]


@dataclass(frozen=True, slots=True)
class At:
    """The field at a path."""

    path: str


@dataclass(frozen=True, slots=True)
class Each:
    """All values at a path that goes through a list, or the one at a path that does not."""

    path: str


@dataclass(frozen=True, slots=True)
class Name:
    """The name of the message: that of its body, or of the frame when there is no choice."""


@dataclass(frozen=True, slots=True)
class Named:
    """A text chosen by the name of the message."""

    texts: Mapping[str, str]
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """A text chosen by a number; other numbers have `default`, or their digits with `digits`."""

    of: Term
    texts: Mapping[int, str]
    default: str | None = None
    digits: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A number in decimal digits."""

    of: Term


@dataclass(frozen=True, slots=True)
class First:
    """The first of several terms that has a value."""

    terms: tuple[Term, ...]

    def __init__(self, *terms: Term):
        object.__setattr__(self, "terms", terms)


@dataclass(frozen=True, slots=True)
class Join:
    """Texts with a separator between them; those without a value are left out."""

    separator: str
    terms: tuple[Term, ...]

    def __init__(self, separator: str, *terms: Term):
        object.__setattr__(self, "separator", separator)
        object.__setattr__(self, "terms", terms)


@dataclass(frozen=True, slots=True)
class RowField:
    """A field of the first row of a kind; with `where`, of the first whose field has that value."""

    row: str
    name: str
    where: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class HasRow:
    """Whether there is a row of a kind; with `where`, one whose field has that value."""

    row: str
    where: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Is:
    """Whether a number is one of these; no when it has no value."""

    of: Term
    numbers: tuple[int, ...]

    def __init__(self, of: Term, *numbers: int):
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "numbers", numbers)


@dataclass(frozen=True, slots=True)
class Equal:
    """Whether two numbers are the same; no when one has no value."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class If:
    """One of two terms; a text stands for itself, None has no value."""

    test: Is | Equal | HasRow
    then: Term | str | None
    otherwise: Term | str | None = None


Term: TypeAlias = (
    At | Each | Name | Named | Values | Text | First | Join | RowField | HasRow | Is | Equal | If
)
"""Something that has a value for a message, or none."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """How the columns of `messages` are found; a term that is None has no value for any message."""

    kind: Term = field(default_factory=lambda: Named({}, "event"))
    name: Term = field(default_factory=Name)
    message_id: Term | None = None
    reply_to: Term | None = None
    target: Term | None = None
    status: Term | None = None
    reason: Term | None = None
    client: Term | None = None
    ids: tuple[Each, ...] = ()
    """Paths of notification ids; the first one that has values counts."""
    body: tuple[str, ...] = ()
    """Paths of the application's bytes; the first one that is there counts. They are not repeated
    in the struct of the protocol."""
    body_row: RowField | None = None
    """The application's bytes in a row; these stay in the struct as well."""
    sealed: tuple[str, ...] = ()
    """Which of the paths in `body` hold bytes that are encrypted on the wire."""
    transformed: tuple[str, ...] = ()
    """Flags of the frame which say that the bytes of its stage are not as they are: without a key
    the stage stays closed."""
    inner: tuple[str, str] | None = None
    """A path whose value is a message of another protocol, and that protocol's stage: the message
    has a row of its own, and is not repeated in the struct."""
