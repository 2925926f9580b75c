"""The registry of protocols: the built-in ones, and those that other packages provide.

A package provides a protocol through the entry point group `wirelake.protocols`, whose value names
a `Protocol`:

    [project.entry-points."wirelake.protocols"]
    thermo = "thermo.layout:PROTOCOL"

Nothing is imported before it is requested: a command that decodes one protocol does not pay for
the others. A package that fails to load affects nothing but itself: `find` raises `RegistryError`
with one line that describes the failure.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from wirelake.wire.errors import unknown
from wirelake.wire.protocol import Protocol, load_reference
from wirelake.wire.walk import dynamics

from .binding import Binding

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "BUILT_IN",
    "GROUP",
    "BrokenProtocolError",
    "RegistryError",
    "all_bindings",
    "binding",
    "find",
    "load_all",
    "names",
    "value_types",
]

GROUP: Final = "wirelake.protocols"
"""The entry point group."""

BUILT_IN: Final[dict[str, str]] = {
    "esnp": "wirelake.protocols.esnp.protocol:PROTOCOL",
    "tny": "wirelake.protocols.tny.protocol:PROTOCOL",
    "relay": "wirelake.protocols.tny.protocol:RELAY",
    "magline": "wirelake.protocols.magline.protocol:PROTOCOL",
    "comet": "wirelake.protocols.comet.protocol:PROTOCOL",
}
"""Where the built-in protocols are declared; another package cannot redefine these names."""


class RegistryError(LookupError):
    """No protocol has this name; the message lists the known ones."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class BrokenProtocolError(RegistryError):
    """A package names a protocol that does not load."""


def names() -> list[str]:
    """Return the names of all protocols, built-in ones first; nothing is loaded."""
    return [*BUILT_IN, *sorted({point.name for point in _points()} - set(BUILT_IN))]


def find(name: str) -> Protocol:
    """Return the protocol of a name."""
    if name in BUILT_IN:
        return _built_in(name)
    points = [point for point in _points() if point.name == name]
    if not points:
        raise RegistryError(unknown("protocol", name, names()))
    if len({point.value for point in points}) > 1:
        raise BrokenProtocolError(
            f"protocol {name!r} is provided by several packages: {_packages(points)}"
        )
    return _load(points[0])


@functools.cache
def _built_in(name: str) -> Protocol:
    found = load_reference(BUILT_IN[name])
    assert isinstance(found, Protocol)
    return found


@functools.lru_cache(maxsize=64)
def binding(name: str) -> Binding:
    """Return the binding of a protocol; RegistryError when it has none and can only be decoded."""
    protocol = find(name)
    if protocol.binding is None:
        raise RegistryError(f"protocol {name!r} has no listener and no client")
    if name in BUILT_IN:
        # A defect in our own module keeps its traceback; only foreign modules are wrapped below.
        return _checked(load_reference(protocol.binding), protocol.binding)
    try:
        return _checked(load_reference(protocol.binding), protocol.binding)
    except Exception as error:  # whatever a foreign module raises must not end the program
        raise BrokenProtocolError(
            f"binding {protocol.binding} of protocol {name!r} does not load: "
            f"{type(error).__name__}: {error}"
        ) from error


def all_bindings() -> tuple[dict[str, Binding], list[BrokenProtocolError]]:
    """Return the binding of every protocol that has one, and the errors of those that do not load.

    Built-in protocols are first. One broken package must not stop the hub, so nothing is raised.
    """
    found: dict[str, Binding] = {}
    protocols, broken = load_all()
    for protocol in protocols:
        if protocol.binding is None:
            continue
        try:
            found[protocol.name] = binding(protocol.name)
        except BrokenProtocolError as error:
            broken.append(error)
    return found, broken


def _checked(found: object, reference: str) -> Binding:
    if not isinstance(found, Binding):
        raise TypeError(f"{reference} is not a wirelake.protocols.binding.Binding")
    return found


def load_all() -> tuple[list[Protocol], list[BrokenProtocolError]]:
    """Return every protocol that loads, and the errors of the others."""
    found: list[Protocol] = []
    broken: list[BrokenProtocolError] = []
    for name in names():
        try:
            found.append(find(name))
        except BrokenProtocolError as error:
            broken.append(error)
    return found, broken


@functools.cache
def value_types() -> dict[int, object]:
    """Return the types of self-describing values, by type number.

    A value in a table does not name its protocol. Where two protocols disagree about a number, the
    protocol that is listed first takes precedence.
    """
    found: dict[int, object] = {}
    for protocol in load_all()[0]:
        for dynamic in dynamics(protocol.layouts(None)):
            for kind in dynamic.kinds:
                found.setdefault(kind.tag, kind.type)
    return found


def _points() -> tuple[EntryPoint, ...]:
    """Return the entry points of installed packages, looked up once for each `sys.path`."""
    # Keyed by the path, not cached for good: scripts and tests that extend sys.path must find the
    # plugins there, and scanning all installed distributions on every call would be slow.
    return _points_on(tuple(sys.path))


@functools.lru_cache(maxsize=4)
def _points_on(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - the key
    from importlib.metadata import entry_points  # slow, and only plugins need it

    return tuple(entry_points(group=GROUP))


def _packages(points: Iterable[EntryPoint]) -> str:
    return ", ".join(sorted({_package(point) for point in points}))


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


# A read asks for all protocols several times; checking a declaration takes a millisecond.
@functools.lru_cache(maxsize=64)
def _load(point: EntryPoint) -> Protocol:
    origin = f"protocol {point.name!r} of package {_package(point)} ({point.value})"
    try:
        found = point.load()
        if isinstance(found, Protocol):
            found.check()  # reports an invalid declaration now, not at the first byte
    except Exception as error:  # whatever a foreign module raises must not end the program
        what = " ".join(str(error).split()) or "no message"
        raise BrokenProtocolError(
            f"{origin} does not load: {type(error).__name__}: {what}"
        ) from error
    if not isinstance(found, Protocol):
        raise BrokenProtocolError(f"{origin} is not a wirelake.wire.Protocol")
    if found.name != point.name:
        raise BrokenProtocolError(f"{origin} has the name {found.name!r}; the names must agree")
    return found
