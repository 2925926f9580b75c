"""The Kaitai files against the compiler that others wrote, and its parsers against our decoder.

Every file of every protocol and dialect is compiled to Python. Then each test vector goes to both
readers: where ours decodes, all values must be equal; where ours refuses, the other must refuse
too. What Kaitai cannot express is listed here by name, with the reason, and the lists are tested:
`NO_FRAME`, `BROKEN_ROWS`, `SEALED`, `LIMITS`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kaitaistruct
import pytest
from hypothesis import given, settings
from kaitai_compare import compare_layout, compare_stage, parse
from kaitai_zoo import ZOO

from wirelake.protocols.comet.protocol import PROTOCOL as COMET
from wirelake.protocols.esnp.layout import BrokenRow
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE
from wirelake.protocols.tny.layout import Envelope, Message
from wirelake.protocols.tny.protocol import PROTOCOL as TNY
from wirelake.protocols.tny.protocol import RELAY
from wirelake.wire import DecodeError, NeedMore, Protocol
from wirelake.wire.declare import build
from wirelake.wire.model import Direction
from wirelake.wire.views.ksy import kaitai
from wirelake.wire.views.strategy import messages

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
VECTORS = HERE.parent / "vectors"
PACKAGES = ("kaitai-struct-compiler", "yaml")
PROTOCOLS = (COMET, ESNP, MAGLINE, TNY, RELAY)

REFUSALS = (
    EOFError,
    ValueError,  # a length below zero; UnicodeDecodeError is one too
    RecursionError,  # Python's own limit stands in for a depth that Kaitai cannot name
    kaitaistruct.KaitaiStructError,
)

NO_FRAME = {
    "prim_": "a bare value: no message around it",
    "int_uvarint_": "a bare varint: no message around it",
    "url_": "the text of an address: no bytes",
    "encode_": "about writing: Kaitai only reads",
    "x25519_": "a primitive of the handshake: no frame",
}
"""Vectors, by how their names begin, that no parser of frames can be given."""

BROKEN_ROWS = frozenset(
    {
        "address_trailing",
        "bad_address_len_too_long",
        "bad_address_neg_len",
        "bad_address_no_value",
        "bad_error_invalid_utf8",
        "bad_flag_empty",
        "bad_flag_unterminated_varint",
        "bad_flag_varint_overflow_10_b02",
        "bad_flag_varint_overflow_11",
        "bad_kv_empty",
        "bad_kv_name_neg_len",
        "bad_kv_no_var",
        "bad_msgid_7bytes",
        "bad_msgid_empty",
        "bad_var_bool_missing",
        "bad_var_bytes_neg",
        "bad_var_float32_short",
        "bad_var_list_count_huge",
        "bad_var_list_count_overrun",
        "bad_var_map_count_neg",
        "bad_var_string_neg",
        "bad_var_string_too_long",
        "bad_var_unknown_type_12",
        "bad_var_unknown_type_25_struct",
        "bad_version_3",
        "bad_xdata_empty",
        "flag_int32_out_of_range",
        "flag_trailing",
        "list_nested_bomb",
        "msgid_9bytes",
        "session_info_broker_uint32_raw",
        "var_int16_out_of_range",
        "var_int_id2_64bit",
        "var_trailing_bytes",
        "var_uint16_out_of_range",
        "version_5",
    }
)
"""Messages of which our decoder keeps a row that breaks a rule as a BrokenRow. Kaitai has no such
fallback: the parser must refuse the whole message."""

SEALED = frozenset(
    {
        "all_options_n2",
        "encrypt_2keys_n2",
        "encrypt_key",
        "encrypt_unicode_key",
        "err_verify_bad_code_upstream",
        "seed_verify_crc32",
        "seed_waste_n1",
        "seed_waste_n2",
        "seed_waste_n3",
        "seed_waste_n5",
        "seed_waste_n6",
        "verify_encrypt",
        "verify_key",
        "verify_key_n3",
        "waste_key_n1",
        "waste_key_n10",
        "waste_key_n11",
        "waste_key_n12",
        "waste_key_n2",
        "waste_key_n3",
        "waste_key_n4",
        "waste_key_n6",
        "waste_key_n8",
        "waste_key_n9",
    }
)
"""Packets of tny whose content is encrypted, padded or followed by a check code: Kaitai cannot undo
that, so the content is compared as bytes and not as a Message."""

LIMITS = {
    "too_large": "a limit of the reader, not of the format",
    "too_many": "a limit of the reader, not of the format",
    "too_deep": "Kaitai cannot count depth; Python's recursion limit stops it much later",
}
"""Errors of our decoder that a Kaitai file does not provide for."""


class Case(NamedTuple):
    """A vector for one protocol, dialect and direction."""

    protocol: Protocol
    dialect: str
    direction: Direction | None
    name: str
    data: bytes
    vector: dict[str, Any]

    @property
    def module(self) -> str:
        """The compiled module that reads it."""
        return module_name(self.protocol, self.dialect, self.direction)


@functools.cache
def module_name(protocol: Protocol, dialect: str, direction: Direction | None) -> str:
    """The name of the one file that reads a protocol's messages."""
    (file,) = kaitai(protocol, dialect, direction)
    return file.removesuffix(".ksy")


# -- the compiler ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file, compiled."""
    folder = tmp_path_factory.mktemp("kaitai")
    if shutil.which("node") is None:
        pytest.fail("node is missing: install Node.js (`make system`), then run `make node`")
    for package in PACKAGES:
        if not (ROOT / ".cache" / "node" / "node_modules" / package).is_dir():
            pytest.fail(f"the npm package {package} is missing from .cache/node: run `make node`")
    for protocol in (*PROTOCOLS, ZOO):
        for dialect in protocol.dialects:
            for name, text in kaitai(protocol, dialect).items():
                (folder / name).write_text(text, encoding="utf-8")
    files = sorted(str(path) for path in folder.glob("*.ksy"))
    command = ["node", str(HERE / "compile_ksy.cjs"), str(folder), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@functools.cache
def load(path: Path) -> Any:
    """The top class of a compiled file."""
    spec = importlib.util.spec_from_file_location(f"kaitai_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "".join(word.capitalize() for word in path.stem.split("_")))


def test_every_file_compiles(compiled: Path) -> None:
    names = {path.stem for path in compiled.glob("*.ksy")}
    assert {path.stem for path in compiled.glob("*.py")} == names
    assert len(names) == 12
    for name in names:
        assert issubclass(load(compiled / f"{name}.py"), kaitaistruct.KaitaiStruct)


# -- the vectors -----------------------------------------------------------------------------


def vector_bytes(vector: dict[str, Any]) -> bytes:
    """The bytes of a vector; long ones are given as a rule and checked by their hash."""
    expect = vector["expect"]
    if "rule" not in expect:
        return bytes.fromhex(vector["hex"])
    if "header_hex" in expect:
        size = expect["total_len"] - 8
        row = bytes((i * 31 + 7) & 0xFF for i in range(256)) * (size // 256 + 1)
        data = bytes.fromhex(expect["header_hex"]) + row[:size] + bytes(4)
    elif "head_hex" in expect:
        head = bytes.fromhex(expect["head_hex"]).rstrip(b"z")
        data = head + b"z" * (expect["total_len"] - len(head) - 4) + bytes(4)
    else:
        body = b"\x02k" + b"\x17\x02" * 100_000 + b"\x00"
        return b"\x15" + len(body).to_bytes(3, "big") + body + bytes(4)
    assert hashlib.sha256(data).hexdigest() == expect["sha256"], vector["name"]
    return data


def dialects(protocol: Protocol, vector: dict[str, Any]) -> tuple[str, ...]:
    """The dialects that a vector speaks of."""
    named = vector.get("dialect") or vector["expect"].get("dialect")
    count = vector["expect"].get("container_count")
    if count is not None:
        return ("go",) if count == "uvarint" else ("seed",)
    if named == "common" or (named is None and protocol is ESNP):
        return protocol.dialects
    return (named or "seed",)


def protocol_of(stem: str, vector: dict[str, Any]) -> Protocol:
    """RelayPack has its vectors among those of tny."""
    relay = vector.get("config", {}).get("decoder") == "relay"
    if relay or vector["expect"].get("packet") == "relay":
        return RELAY
    return {"comet": COMET, "esnp": ESNP, "magline": MAGLINE, "tny": TNY}[stem]


def all_vectors() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(VECTORS.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield path.stem, json.loads(line)


def cases() -> Iterator[Case]:
    for stem, vector in all_vectors():
        if vector["name"].startswith(tuple(NO_FRAME)):
            continue
        protocol = protocol_of(stem, vector)
        direction = vector["direction"] if protocol.directed else None
        for dialect in dialects(protocol, vector):
            yield Case(protocol, dialect, direction, vector["name"], vector_bytes(vector), vector)


CASES = list(cases())
IDS = [f"{case.module}-{case.name}" for case in CASES]


def frames(case: Case) -> tuple[list[tuple[Any, int, int]], str]:
    """What our decoder makes of the bytes: (message, start, stop), and the code it ends with."""
    found, pos = [], 0
    while pos < len(case.data) or not pos:
        try:
            message, stop = case.protocol.decode(
                case.data, pos, direction=case.direction, dialect=case.dialect
            )
        except DecodeError as error:
            return found, error.code
        except NeedMore:
            return found, "need_more"
        broken = [row for row in getattr(message, "rows", ()) if isinstance(row, BrokenRow)]
        if broken:
            return found, broken[0].code
        found.append((message, pos, stop))
        pos = stop
    return found, ""


def is_sealed(message: Any) -> bool:
    return bool(message.waste or message.encrypt or message.verify)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_vector(compiled: Path, case: Case) -> None:
    parser = load(compiled / f"{case.module}.py")
    good, code = frames(case)
    for message, start, stop in good:
        compare_frame(case, parser, message, case.data[start:stop])
    if code and code not in LIMITS:
        with pytest.raises(REFUSALS):
            parse(parser, case.data[good[-1][2] if good else 0 :])


def compare_frame(case: Case, parser: Any, message: Any, data: bytes) -> None:
    node = parse(parser, data)
    assert node._io.pos() == len(data)
    compare_layout(case.protocol.model(case.dialect), message, node)
    if case.protocol is TNY and isinstance(message.body, Envelope) and not is_sealed(message):
        content = message.body.content
        try:
            inner, stop = TNY.codec(case.dialect).read_message(content, 0, len(content))
        except DecodeError:
            inner, stop = None, 0
        if stop == len(content):
            compare_stage(build(Message, case.dialect), inner, parser, content)
        else:
            with pytest.raises((*REFUSALS, AssertionError)):
                compare_stage(build(Message, case.dialect), inner, parser, content)


# -- what cannot be expressed ----------------------------------------------------------------


def test_every_vector_is_a_case_or_listed() -> None:
    taken = {case.name for case in CASES}
    for _, vector in all_vectors():
        assert (vector["name"] in taken) != vector["name"].startswith(tuple(NO_FRAME))
    for prefix in NO_FRAME:
        assert any(vector["name"].startswith(prefix) for _, vector in all_vectors()), prefix


def test_broken_rows_are_the_listed_ones() -> None:
    found = set()
    for case in CASES:
        if case.protocol is ESNP:
            with contextlib.suppress(DecodeError, NeedMore):
                message, _ = ESNP.decode(case.data, dialect=case.dialect)
                if any(isinstance(row, BrokenRow) for row in message.rows):
                    found.add(case.name)
    assert found == BROKEN_ROWS


def test_sealed_packets_are_the_listed_ones() -> None:
    sealed = {
        case.name
        for case in CASES
        if case.protocol is TNY
        for message, _, _ in frames(case)[0]
        if is_sealed(message)
    }
    assert sealed == SEALED


# -- messages that no vector has -------------------------------------------------------------


FILES = [
    (protocol, dialect, direction)
    for protocol in (*PROTOCOLS, ZOO)
    for dialect in protocol.dialects
    for direction in (("c2s", "s2c") if protocol.directed else (None,))
]


@pytest.mark.parametrize(("protocol", "dialect", "direction"), FILES)
def test_any_message(
    compiled: Path, protocol: Protocol, dialect: str, direction: Direction | None
) -> None:
    (name,) = kaitai(protocol, dialect, direction)
    parser = load(compiled / name.replace(".ksy", ".py"))

    @given(messages(protocol, dialect, direction))
    @settings(database=None)
    def check(message: Any) -> None:
        data = protocol.encode(message, dialect=dialect)
        decoded, stop = protocol.decode(data, direction=direction, dialect=dialect)
        node = parse(parser, data)
        assert node._io.pos() == stop == len(data)
        compare_layout(protocol.model(dialect), decoded, node)

    check()
