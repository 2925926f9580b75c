"""The struct of a protocol: rows as lists by kind."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from wirelake.protocols import registry
from wirelake.protocols.esnp import layout as esnp
from wirelake.records.structs import messages_schema, struct_type, struct_value
from wirelake.wire.views.arrow import to_record

ESNP = registry.find("esnp")
KINDS = {21: "data", 22: "payload", 17: "message_id", 30: "flag"}


def rows_of(*rows: Any) -> dict[str, list[Any]]:
    """The rows of a message, as the table has them."""
    value = struct_value(ESNP, ESNP.dialects[0], esnp.Message(rows=rows), {})
    array = pa.array([value], struct_type(ESNP))
    array.validate(full=True)
    found = array.to_pylist()[0]["rows_by_kind"]
    assert isinstance(found, dict)
    return found


def number(name: str, value: int) -> esnp.Data:
    return esnp.Data(name=name, value=esnp.Var(type=esnp.VarType.INT32, value=value))


def test_every_kind_has_a_list_of_its_own() -> None:
    found = rows_of(
        esnp.MessageId(value=7),
        number("a", 1),
        esnp.Payload(data=b"one"),
        number("b", 2),
        esnp.Payload(data=b"two"),
    )
    assert found["types"] == [17, 21, 22, 21, 22]
    assert found["message_id"] == [{"value": 7}]
    assert found["payload"] == [{"data": b"one"}, {"data": b"two"}]
    assert [(each["name"], each["value"][0]["int"]) for each in found["data"]] == [
        ("a", 1),
        ("b", 2),
    ]


def test_a_list_is_empty_where_there_is_no_such_row() -> None:
    found = rows_of()
    assert set(found) == {field.name for field in struct_type(ESNP).field("rows_by_kind").type}
    assert all(each == [] for each in found.values())


def test_rows_of_unknown_types_are_opaque_and_in_order() -> None:
    found = rows_of(
        esnp.OpaqueRow(type=200, data=b"x"),
        esnp.Flag(value=4),
        esnp.OpaqueRow(type=99, data=b""),
    )
    assert found["types"] == [200, 30, 99]
    assert found["opaque"] == [{"type": 200, "data": b"x"}, {"type": 99, "data": b""}]


def test_an_invalid_row_is_named() -> None:
    found = rows_of(
        number("a", 1),
        esnp.BrokenRow(type=21, data=b"\xff", code="E", field="name", offset=0),
        number("b", 2),
    )
    assert found["types"] == [21, 21, 21]
    assert [each["name"] for each in found["data"]] == ["a", "b"]
    wrong = {"data": b"\xff", "code": "E", "field": "name", "offset": 0}
    assert found["broken"] == [{"row": 1, "type": 21, **wrong}]


def test_the_rows_can_be_put_together_again() -> None:
    rows = (
        esnp.Payload(data=b"1"),
        esnp.OpaqueRow(type=98, data=b"2"),
        esnp.BrokenRow(type=22, data=b"3", code="E", field="data", offset=0),
        esnp.Payload(data=b"4"),
        esnp.BrokenRow(type=30, data=b"5", code="E", field="value", offset=0),
        esnp.OpaqueRow(type=97, data=b"6"),
        esnp.Payload(data=b"7"),
    )
    found = rows_of(*rows)
    broken = {each["row"]: each for each in found["broken"]}
    seen = Counter[str]()
    said = []
    for place, tag in enumerate(found["types"]):
        name = KINDS.get(tag, "opaque")
        if place in broken:
            said.append(broken[place]["data"])
        else:
            said.append(found[name][seen[name]]["data"])
            seen[name] += 1
    assert b"".join(said) == b"1234567"


def test_numbers_of_64_bits_are_signed() -> None:
    found = rows_of(esnp.MessageId(value=2**64 - 1))
    assert found["message_id"] == [{"value": -1}]


def test_the_table_has_the_struct() -> None:
    assert messages_schema(["esnp"]).field("esnp").type == struct_type(ESNP)


def test_the_view_of_the_declaration_keeps_the_rows_in_one_list() -> None:
    record = to_record(ESNP.model(), esnp.Message(rows=(esnp.Flag(value=4),)))
    assert [row["row"] for row in record["rows"]] == ["flag"]
