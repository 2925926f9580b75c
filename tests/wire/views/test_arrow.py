"""Arrow schemas and records: exact types, nothing lost, secrets masked, Parquet takes it all."""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.protocols.comet import layout as comet
from wirelake.protocols.comet.protocol import PROTOCOL as COMET_PROTOCOL
from wirelake.protocols.esnp import layout as esnp
from wirelake.protocols.esnp.protocol import PROTOCOL as ESNP_PROTOCOL
from wirelake.protocols.magline.protocol import PROTOCOL as MAGLINE_PROTOCOL
from wirelake.protocols.registry import BUILT_IN, find
from wirelake.protocols.tny import layout as tny
from wirelake.protocols.tny.protocol import PROTOCOL as TNY_PROTOCOL
from wirelake.wire import Layout, Protocol
from wirelake.wire import model as m
from wirelake.wire.declare import build
from wirelake.wire.types import I16LE, U8, U24, U64, Bits4, Choice, Tag8
from wirelake.wire.views import arrow
from wirelake.wire.views.strategy import messages, values

pytestmark = pytest.mark.slow

VAR = next(p.type for p in build(esnp.Data).parts if p.name == "value")
DIALECTS = [(find(name), dialect) for name in BUILT_IN for dialect in find(name).dialects]


def same(value: Any) -> Any:
    """A form in which equal means the same bits: a NaN is not equal to itself."""
    match value:
        case float():
            return "nan" if math.isnan(value) else struct.pack(">d", value)
        case dict():
            return {key: same(item) for key, item in value.items()}
        case list() | tuple():
            return [same(item) for item in value]
        case _:
            return value


def var_bits(value: Any) -> Any:
    """A Var with the bits of its floats."""
    match value.value:
        case float():
            return value.type, struct.pack(">d", value.value)
        case tuple() if value.type == esnp.VarType.MAP:
            return value.type, [(key, var_bits(item)) for key, item in value.value]
        case tuple():
            return value.type, [var_bits(item) for item in value.value]
        case _:
            return value.type, type(value.value), value.value


def assert_nulls_only_where_allowed(field: pa.Field, value: Any) -> None:
    """pyarrow does not check this itself."""
    if value is None:
        assert field.nullable, field
    elif pa.types.is_struct(field.type):
        assert list(value) == [inner.name for inner in field.type]
        for inner in field.type:
            assert_nulls_only_where_allowed(inner, value[inner.name])
    elif pa.types.is_list(field.type):
        for item in value:
            assert_nulls_only_where_allowed(field.type.value_field, item)


def types_of(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


# -- any message of any protocol -------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "dialect"), DIALECTS)
def test_any_message_survives_a_table_and_parquet(protocol: Protocol, dialect: str) -> None:
    schema = arrow.protocol_schema(protocol, dialect)
    model = protocol.model(dialect)

    @given(st.lists(messages(protocol, dialect), min_size=1, max_size=3))
    @settings(max_examples=30)
    def check(found: list[Any]) -> None:
        records = [arrow.to_record(model, message, reveal=True) for message in found]
        for record in records:
            assert list(record) == schema.names
            for field in schema:
                assert_nulls_only_where_allowed(field, record[field.name])
        table = pa.Table.from_pylist(records, schema=schema)
        table.validate(full=True)
        assert same(table.to_pylist()) == same(records)
        file = io.BytesIO()
        pq.write_table(table, file)
        assert same(pq.read_table(file).to_pylist()) == same(records)

    check()


@pytest.mark.parametrize(("protocol", "dialect"), DIALECTS)
def test_every_layout_has_a_schema(protocol: Protocol, dialect: str) -> None:
    for layout in protocol.layouts(dialect):
        schema = arrow.schema(layout)
        assert len(set(schema.names)) == len(schema.names)
        assert schema.metadata[b"layout"].decode() == layout.name
        assert schema.metadata[b"dialect"].decode() == dialect


# -- types, nulls, metadata ------------------------------------------------------------------


def test_comet_has_a_column_for_each_command() -> None:
    schema = arrow.protocol_schema(COMET_PROTOCOL)
    assert schema.names[:3] == ["body", "auth", "exchange_key"]
    assert len(schema.names) == 1 + 15
    assert not schema.field("body").nullable
    assert all(schema.field(name).nullable for name in schema.names[1:])
    assert str(schema.field("heartbeat").type) == "bool"
    assert schema.metadata[b"protocol"] == b"comet"
    about = schema.field("auth").metadata
    assert (about[b"tag"], about[b"direction"]) == (b"0", b"c2s")
    assert about[b"section"].decode() == comet.Auth.section


def test_widths_are_exact() -> None:
    assert types_of(arrow.schema(build(comet.Notification, "hipush"))) == {
        "msg_type": "uint8",
        "msg_id": "string",
        "job_id": "string",
        "content": "binary",
        "ts": "int64",
    }
    assert types_of(arrow.schema(build(esnp.MessageId))) == {"value": "uint64"}
    frame = types_of(arrow.protocol_schema(MAGLINE_PROTOCOL))
    assert (frame["seq"], frame["auth"]) == ("uint32", "fixed_size_binary[16]")
    assert frame["unknown_options"] == (
        "list<item: struct<bit: uint16 not null, data: binary not null> not null>"
    )
    packet = types_of(arrow.protocol_schema(TNY_PROTOCOL))
    assert (packet["waste"], packet["reserved"]) == ("bool", "uint8")


def test_nullability_follows_presence() -> None:
    schema = arrow.schema(build(tny.Message))
    assert [f.name for f in schema if f.nullable] == ["forward_header", "body"]
    relay = arrow.schema(build(tny.LinkOpen))
    assert [f.name for f in relay if f.nullable] == ["key", "service_type"]
    assert not relay.field("unknown").nullable


def test_metadata() -> None:
    schema = arrow.schema(build(comet.ReportEnviron))
    about = schema.field("network_type").metadata
    assert about[b"doc"] == b"What it is connected through."
    assert json.loads(about[b"values"]) == {"0": "WIFI", "1": "G2", "2": "G3", "3": "G4"}
    assert b"secret" not in about
    assert arrow.schema(build(comet.Auth)).field("token").metadata[b"secret"] == b"true"
    kinds = json.loads(arrow.schema(build(esnp.Data)).field("value").metadata[b"values"])
    assert kinds["11"] == "uint64"


def test_the_type_of_a_var() -> None:
    node = (
        "struct<parent: int32 not null, name: string, type: int16 not null, int: int64, "
        "float: double, text: string, bytes: binary>"
    )
    assert str(arrow.var_type(VAR)) == f"list<item: {node} not null>"


# -- records ---------------------------------------------------------------------------------


def test_secrets_are_null_unless_asked_for() -> None:
    auth = comet.Auth(client_id="c", token="hush")
    model = COMET_PROTOCOL.model()
    hidden = arrow.to_record(model, auth)
    assert hidden["auth"] == {"client_id": "c", "token": None}
    assert arrow.to_record(model, auth, reveal=True)["auth"]["token"] == "hush"
    assert "hush" not in str(arrow.to_table(model, [auth]).to_pylist())
    link = tny.LinkOpen(key="hush", unknown=b"")
    assert arrow.to_record(build(tny.LinkOpen), link)["key"] is None


def test_a_body_fills_its_own_column() -> None:
    model = COMET_PROTOCOL.model()
    ok, list_ = arrow.to_table(model, [comet.Ok(), comet.TopicList(topics=("@a",))]).to_pylist()
    assert {key for key, value in ok.items() if value is not None} == {"body", "ok"}
    assert (ok["body"], ok["ok"]) == ("ok", True)
    assert list_["topic_list"] == {"topics": ["@a"]}
    with pytest.raises(TypeError, match="Notes is not a body of frame"):
        arrow.to_record(model, Notes(row="x"))  # type: ignore[arg-type]


def test_rows() -> None:
    message = esnp.Message(
        rows=(
            esnp.Flag(value=4),
            esnp.OpaqueRow(type=0x80, data=b"app"),
            esnp.BrokenRow(type=0x1F, data=b"x", code="short", field="version.minor", offset=1),
        )
    )
    (record,) = arrow.to_table(ESNP_PROTOCOL.model(), [message]).to_pylist()
    flag, opaque, broken = (
        {key: value for key, value in row.items() if value is not None} for row in record["rows"]
    )
    assert flag == {"type": 0x1E, "row": "flag", "flag": {"value": 4}}
    assert opaque == {"type": 0x80, "row": "opaque", "opaque": b"app"}
    error = {"data": b"x", "code": "short", "field": "version.minor", "offset": 1}
    assert broken == {"type": 0x1F, "row": "broken", "broken": error}


def test_bytes_that_are_no_text_become_a_replacement() -> None:
    data = b"\x00\x06\x03\x01\x00\x02\xff@"
    message, _ = COMET_PROTOCOL.decode(data, direction="c2s")
    (record,) = arrow.to_table(COMET_PROTOCOL.model(), [message]).to_pylist()
    assert record["subscribe"] == {"topics": ["\ufffd@"]}


def test_the_largest_unsigned_number_is_kept() -> None:
    row = esnp.MessageId(value=(1 << 64) - 1)
    assert arrow.to_table(build(esnp.MessageId), [row]).to_pylist() == [{"value": (1 << 64) - 1}]


# -- self-describing values ------------------------------------------------------------------


@given(values(build(esnp.Data)))
def test_a_var_survives_a_table(data: Any) -> None:
    (record,) = arrow.to_table(build(esnp.Data), [data]).to_pylist()
    assert var_bits(arrow.from_var_rows(VAR, record["value"])) == var_bits(data.value)


@pytest.mark.parametrize(
    "bits", ["7fc00000", "7f800001", "ffc12345", "ff800001", "7fffffff", "00000001", "80000000"]
)
def test_float32_bits_survive(bits: str) -> None:
    wire = bytes.fromhex(f"15000007026b0d{bits}00000000")
    message, _ = ESNP_PROTOCOL.decode(wire)
    (record,) = arrow.to_table(ESNP_PROTOCOL.model(), [message]).to_pylist()
    found = arrow.from_var_rows(VAR, record["rows"][0]["data"]["value"])
    assert ESNP_PROTOCOL.encode(esnp.Message(rows=(esnp.Data(name="k", value=found),))) == wire


@given(st.integers(0, (1 << 52) - 1).filter(bool), st.booleans())
def test_float64_nan_bits_survive(payload: int, negative: bool) -> None:
    bits = negative << 63 | 0x7FF << 52 | payload
    (nan,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    value = esnp.Var(type=14, value=nan)
    (row,) = arrow.to_var_rows(VAR, value)
    assert var_bits(arrow.from_var_rows(VAR, [row])) == var_bits(value)
    # Even where an engine turns every NaN into its own.
    assert var_bits(arrow.from_var_rows(VAR, [row | {"float": math.nan}])) == var_bits(value)


def test_nodes_are_in_preorder() -> None:
    inner = esnp.Var(type=23, value=(esnp.Var(type=11, value=(1 << 64) - 1), esnp.Var(type=0)))
    value = esnp.Var(type=21, value=(("a", inner), ("", esnp.Var(type=1, value=True))))
    rows = arrow.to_var_rows(VAR, value)
    assert [(row["parent"], row["name"], row["type"], row["int"]) for row in rows] == [
        (-1, None, 21, None),
        (0, "a", 23, None),
        (1, None, 11, -1),
        (1, None, 0, None),
        (0, "", 1, 1),
    ]
    assert arrow.from_var_rows(VAR, rows) == value


def test_empty_containers_and_texts_are_distinguished() -> None:
    for value in (
        esnp.Var(type=0),
        esnp.Var(type=21, value=()),
        esnp.Var(type=23, value=()),
        esnp.Var(type=24, value=""),
        esnp.Var(type=17, value=b""),
        esnp.Var(type=1, value=False),
    ):
        back = arrow.from_var_rows(VAR, arrow.to_var_rows(VAR, value))
        assert var_bits(back) == var_bits(value)


ROW = {"parent": -1, "name": None, "type": 0, "int": None, "float": None, "text": None}
ROW |= {"bytes": None}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "first node"),
        ([ROW | {"type": 99}], "no type 99"),
        ([ROW | {"parent": 0}], "node 0 cannot be in node 0"),
        ([ROW | {"type": 23}, ROW], "node 1 cannot be in node -1"),
        ([ROW, ROW | {"parent": 0}], "not a container"),
    ],
)
def test_other_rows_are_refused(rows: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        arrow.from_var_rows(VAR, rows)


def test_a_var_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no type 99"):
        arrow.to_var_rows(VAR, esnp.Var(type=99))


def test_loose_text_in_a_value_keeps_its_bytes() -> None:
    kind = m.Dynamic(
        cls=esnp.Var,
        name="v",
        tag=m.Int(2),
        kinds=(m.DynamicKind(1, "t", m.Blob(m.Int(1), "loose")),),
    )
    value = esnp.Var(type=1, value="a\udcff")
    (row,) = arrow.to_var_rows(kind, value)
    assert (row["text"], row["bytes"]) == ("a\ufffd", b"a\xff")
    assert arrow.from_var_rows(kind, [row]) == value
    assert "type: int32" in str(arrow.var_type(kind))


# -- names that are taken --------------------------------------------------------------------


class Notes(Layout):
    """Bears the name of a field of its frame."""

    row: str = ""


class Error(Layout):
    """One of two layouts of one name."""

    code: U24
    back: I16LE


class OtherError(Layout):
    """The other."""

    wire_name: ClassVar[str] = "error"

    id: U64


class Frame(Layout):
    """A frame."""

    kind: ClassVar[Tag8]
    error: U8
    high: Bits4
    low: Bits4
    body: Annotated[Error | OtherError, Choice({1: Error, 2: OtherError})]


def test_columns_have_different_names() -> None:
    schema = arrow.schema(build(Frame))
    names = ["error", "high", "low", "body", "body_error", "body_body_error"]
    assert schema.names == names
    assert (
        str(schema.field("body_error").type)
        == "struct<code: uint32 not null, back: int16 not null>"
    )
    frame = Frame(error=1, high=15, low=0, body=OtherError(id=7))
    (record,) = arrow.to_table(build(Frame), [frame]).to_pylist()
    assert record == {
        "error": 1,
        "high": 15,
        "low": 0,
        "body": "body_body_error",
        "body_error": None,
        "body_body_error": {"id": 7},
    }
