"""Self-describing values: one reading and one writing function that call themselves.

Depth is limited, and every container pays for its items from a budget before it reads them, so
that neither the stack nor memory grows beyond what a message may ask for.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .. import model as m
from .code import Code, Structs
from .reader import Reader, text_lines, varint_lines
from .writer import varint_expr

if TYPE_CHECKING:
    from ..protocol import Protocol

__all__ = [
    "cache_folder",
    "dynamic_reader",
    "dynamic_tags",
    "dynamic_writer",
    "is_committed",
    "load_codec",
    "load_source",
    "make_cache_folder",
    "others_may_write",
    "temporary_cache_folder",
]


def dynamic_reader(kind: m.Dynamic, structs: Structs) -> str:
    """Return the reading function: `read_<name>(buf, pos, end, depth, budget)`."""
    cls, name = kind.cls.__name__, kind.name
    code = Code()
    code(
        f"def read_{name}(buf: bytes, pos: int, end: int, depth: int, budget: list[int]) -> tuple[{cls}, int]:"
    )
    code.indent = 1
    with code.block("if pos >= end:"):
        code(f'raise rt.refuse("short", "{name}.type", pos)')
    code("tag = buf[pos]", "pos += 1", "value: Any")
    with code.block("if tag not in _" + f"{name.upper()}_TAGS:"):
        code(f'raise rt.refuse("unknown_var_type", "{name}.type", pos - 1, str(tag))')
    _choose(code, kind.kinds, lambda each: _read_kind(code, structs, kind, each))
    code(f"return {cls}(type=tag, value=value), pos")
    return f"{code}\n"


def _choose(
    code: Code, kinds: tuple[m.DynamicKind, ...], emit: Callable[[m.DynamicKind], None]
) -> None:
    """Emit a binary search for the kind of a known tag: five comparisons for eighteen kinds.

    A chain of `if` would take nine on average, and a dict of functions one call per node.
    """
    kinds = tuple(sorted(kinds, key=lambda each: each.tag))
    if len(kinds) == 1:
        code(f"# {kinds[0].name}")
        emit(kinds[0])
        return
    middle = len(kinds) // 2
    with code.block(f"if tag < {kinds[middle].tag}:"):
        _choose(code, kinds[:middle], emit)
    with code.block("else:"):
        _choose(code, kinds[middle:], emit)


def dynamic_tags(kind: m.Dynamic) -> str:
    """Return the set of known tags."""
    tags = ", ".join(str(each.tag) for each in kind.kinds)
    return f"_{kind.name.upper()}_TAGS = frozenset({{{tags}}})"


def _read_kind(code: Code, structs: Structs, kind: m.Dynamic, each: m.DynamicKind) -> None:
    label = f"{kind.name}.{each.name}"
    match each.type:
        case None:
            code("value = None")
        case m.Varint():
            varint_lines(code, label, "value", each.type)
        case m.Blob():
            _read_blob(code, label, "value", each.type)
        case m.Items() | m.Pairs():
            _read_container(code, kind, each)
        case _:
            layout = m.Layout(kind.name, kind.cls, (), "")
            reader = Reader(layout, structs)
            reader.code = code
            reader.slot(each.name, "value", each.type)
            reader.flush()


def _read_blob(code: Code, label: str, var: str, kind: m.Blob) -> None:
    assert isinstance(kind.length, m.Varint)
    varint_lines(code, label, "size", kind.length)
    code("start = pos", "pos += size")
    # Lengths are signed in ESNP (zigzag), and the original crashes on a negative one (section 7).
    with code.block("if size < 0 or pos > end:"):
        code(f'raise rt.overrun("{label}", start, size, end)')
    text_lines(code, label, var, kind, "buf[start:pos]", "start")


def _read_container(code: Code, kind: m.Dynamic, each: m.DynamicKind) -> None:
    label = f"{kind.name}.{each.name}"
    assert isinstance(each.type, m.Items | m.Pairs)
    least = 2 if isinstance(each.type, m.Pairs) else 1
    with code.block(f"if depth >= {kind.max_depth}:"):
        code(f'raise rt.refuse("too_deep", "{label}", pos)')
    assert isinstance(each.type.count, m.Varint)
    varint_lines(code, label, "size", each.type.count)
    count = f"size * {least}" if least > 1 else "size"
    with code.block(f"if size < 0 or {count} > end - pos:"):
        code(f'raise rt.overrun("{label}", pos, size, end)')
    # One budget for the whole value, not a limit per container: lists of lists multiply. Spent
    # before the loop, so that a hostile count costs nothing. Depth is limited for the same reason:
    # the functions are recursive, and nesting has no bound in the original (esnp, section 7).
    code("budget[0] -= size")
    with code.block("if budget[0] < 0:"):
        code(f'raise rt.refuse("too_many", "{label}", pos)')
    code("count = size")
    items = "pairs" if isinstance(each.type, m.Pairs) else "items"
    code(f"{items} = []")
    with code.block("for _ in range(count):"):
        call = f"read_{kind.name}(buf, pos, end, depth + 1, budget)"
        if isinstance(each.type, m.Pairs):
            _read_blob(code, f"{label}.key", "key", each.type.key)
            code(f"item, pos = {call}", "pairs.append((key, item))")
        else:
            code(f"item, pos = {call}", "items.append(item)")
    code(f"value = tuple({items})")


def dynamic_writer(kind: m.Dynamic, structs: Structs) -> str:
    """Return the writing function: `write_<name>(value, depth, budget)`."""
    cls, name = kind.cls.__name__, kind.name
    code = Code()
    code(f"def write_{name}(value: {cls}, depth: int, budget: list[int]) -> bytes:")
    code.indent = 1
    code("tag = value.type", "inner: Any = value.value", "data: bytes")
    # The encoder has the limits of the decoder: it never writes what a peer like us refuses.
    with code.block(f"if depth > {kind.max_depth}:"):
        code(f'raise EncodeError("too_deep", "{name}", None)')
    with code.block("if tag not in _" + f"{name.upper()}_TAGS:"):
        code(f'raise EncodeError("unknown_var_type", "{name}.type", None, str(tag))')
    _choose(code, kind.kinds, lambda each: _write_kind(code, structs, kind, each))
    return f"{code}\n"


def _write_kind(code: Code, structs: Structs, kind: m.Dynamic, each: m.DynamicKind) -> None:
    label, head = f"{kind.name}.{each.name}", bytes([each.tag])
    match each.type:
        case None:
            with code.block("if inner is not None:"):
                code(f'raise EncodeError("bad_value", "{label}", None, "it holds no value")')
            code(f"return {head!r}")
        case m.Varint():
            code(f"return {head!r} + {varint_expr('inner', each.type, label)}")
        case m.Bool():
            code(f"return {head + bytes([1])!r} if inner else {head + bytes([0])!r}")
        case m.Float(size=4):
            code(f'return {head!r} + rt.put_f32(inner, "{each.type.order}", "{label}")')
        case m.Float():
            form = ">d" if each.type.order == "big" else "<d"
            with code.block("try:"):
                code(f"return {head!r} + {structs.pack(form)}(inner)")
            with code.block("except (struct.error, OverflowError):"):
                code(f'raise rt.unfit("{kind.name}", ("{each.name}", "{form}", inner)) from None')
        case m.Int():
            size, signed, order = each.type.size, each.type.signed, each.type.order
            code(f'return {head!r} + rt.put_int_of(inner, {size}, {signed}, "{label}", "{order}")')
        case m.Blob():
            put = "put_loose" if each.type.text == "loose" else "put_text"
            text = f'rt.{put}(inner, "{label}")' if each.type.text else "inner"
            assert isinstance(each.type.length, m.Varint)
            code(f"data = {text}", "size = len(data)")
            code(
                f"return {head!r} + {varint_expr('size', each.type.length, label, size=True)} + data"
            )
        case m.Items() | m.Pairs():
            _write_container(code, kind, each, head)


def _write_container(code: Code, kind: m.Dynamic, each: m.DynamicKind, head: bytes) -> None:
    label = f"{kind.name}.{each.name}"
    assert isinstance(each.type, m.Items | m.Pairs)
    assert isinstance(each.type.count, m.Varint)
    with code.block(f"if depth >= {kind.max_depth}:"):
        code(f'raise EncodeError("too_deep", "{label}", None)')
    code("size = len(inner)", "budget[0] -= size")
    with code.block("if budget[0] < 0:"):
        code(f'raise EncodeError("too_many", "{label}", None)')
    code(f"parts = [{head!r}, {varint_expr('size', each.type.count, label, size=True)}]")
    if isinstance(each.type, m.Pairs):
        assert isinstance(each.type.key.length, m.Varint)
        with code.block("for key, item in inner:"):
            put = "put_loose" if each.type.key.text == "loose" else "put_text"
            code(f'data = rt.{put}(key, "{label}.key")', "size = len(data)")
            code(
                f"parts.append({varint_expr('size', each.type.key.length, label, size=True)})",
                "parts.append(data)",
            )
            code(f"parts.append(write_{kind.name}(item, depth + 1, budget))")
    else:
        with code.block("for item in inner:"):
            code(f"parts.append(write_{kind.name}(item, depth + 1, budget))")
    code('return b"".join(parts)')


# -- loading codecs --------------------------------------------------------------------------------
#
# Codecs of default dialects are committed files. Those of other dialects and of other packages'
# protocols are generated into a cache folder under a name with the hash of their source: a changed
# declaration gets another file, and no file is ever out of date.


def cache_folder() -> Path:
    """Return the folder for generated modules: `$WIRELAKE_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("WIRELAKE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wirelake"


def make_cache_folder(folder: Path) -> None:
    """Create a cache folder, and those above it, for this user alone, whatever the umask.

    What is in it is run. Raises OSError.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: not a folder")


def others_may_write(folder: Path) -> bool:
    """Return whether a folder is of another user, or everybody may write to it."""
    found = folder.stat()
    return bool(found.st_mode & stat.S_IWOTH) or found.st_uid not in (0, _user())


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def temporary_cache_folder() -> Path:
    """Return the folder that replaces a cache folder that cannot be written.

    All processes of a user share it, so that kernels are compiled once. Compiled kernels are
    code that is run: a folder that another user may write is not used.
    """
    uid = _user()
    path = Path(tempfile.gettempdir()) / f"wirelake-{uid}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o022:
            return path
    except OSError:
        pass
    return _private_folder()


_private: list[Path] = []
"""The folder of this process: one, or it would not find what it wrote before."""


def _private_folder() -> Path:
    if not _private or not _private[-1].is_dir():
        _private.append(Path(tempfile.mkdtemp(prefix="wirelake-")))
        atexit.register(shutil.rmtree, _private[-1], ignore_errors=True)
    return _private[-1]


def is_committed(protocol: Protocol, dialect: str) -> bool:
    """Return whether the generated code of a dialect is part of this package."""
    in_package = protocol.frame.__module__.startswith("wirelake.protocols.")
    return in_package and dialect == protocol.dialects[0]


def load_codec(protocol: Protocol, dialect: str) -> ModuleType:
    """Return the module with the functions of a protocol in a dialect."""
    if is_committed(protocol, dialect):
        package = protocol.frame.__module__.rpartition(".")[0]
        return importlib.import_module(f"{package}.codec_{dialect}")
    from .module import codec_source  # the generator, which committed codecs do not need

    protocol.check()
    stem = f"wirelake_codec_{protocol.name.replace('-', '_')}_{dialect}"
    return load_source(stem, codec_source([protocol], dialect))


def load_source(stem: str, source: str, version: str = "") -> ModuleType:
    """Import this source from a file in the cache folder.

    The file name contains the hash of the source and of `version`, which stands for what the source
    depends on but does not contain.
    """
    # A real file, not exec: tracebacks and profilers show its lines, and Numba, which generates
    # kernels the same way, cannot cache code without a file ("no locator available").
    digest = hashlib.sha256((source + version).encode()).hexdigest()
    name = f"{stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    path = _write_if_absent(cache_folder() / f"{name}.py", source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _write_if_absent(path: Path, source: str) -> Path:
    """Write the file unless it has this content, and return its path."""
    try:
        return _replace(path, source)
    except OSError:
        return _replace(temporary_cache_folder() / path.name, source)


def _replace(path: Path, source: str) -> Path:
    content = source.encode()
    if path.exists() and path.read_bytes() == content:
        return path
    make_cache_folder(path.parent)
    # Several processes may do this at the same time: each writes its own temporary file and renames
    # it, so that none can read an incomplete module.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as out:
        out.write(content)
    os.replace(out.name, path)
    return path
