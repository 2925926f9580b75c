"""The ESNP adapter: kinds of vectors beyond those in the files, and what it must not let pass."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from tests.conformance.excuses import EXCUSES
from tests.conformance.mutation import check

from wirelake.conformance.esnp import CLASSES, ERRORS, FIRST_FLAG_ONLY, bytes_of_rule, run
from wirelake.conformance.expectation import Context, VectorFailure
from wirelake.conformance.runner import Case, Suite

END = "00000000"


def vector(expect: dict[str, Any], data: str = "", **more: Any) -> dict[str, Any]:
    plain = {"name": "some", "protocol": "esnp", "origin": "hand-derived", "notes": ""}
    return {**plain, "revision": "lines", "hex": data, "expect": expect, **more}


def outcome(raw: dict[str, Any]) -> str | None:
    try:
        run(raw, Context())
    except VectorFailure as failure:
        return str(failure)
    return None


def row(number: int, body: str) -> str:
    return f"{number:02x}{len(body) // 2:06x}{body}"


def data(var: str) -> str:
    return row(0x15, "026b" + var) + END


def one(**fields: Any) -> dict[str, Any]:
    return {"rows": [fields]}


def var(number: int, name: str, value: Any, **more: Any) -> dict[str, Any]:
    return one(row="DATA", type=21, name="k", var={"t": number, "name": name, "v": value, **more})


TRACE_REPORT = row(0x1E, "06") + row(0x1E, "04") + row(0x1E, "08") + row(0x16, "61") + END

GOOD: dict[str, dict[str, Any]] = {
    "source id": vector(
        one(row="SOURCE_MESSAGE_ID", type=18, value=5), row(0x12, "0000000000000005") + END
    ),
    "header": vector(
        one(row="HEADER", type=20, name="k", var={"t": 7, "name": "UInt", "v": 1}),
        row(0x14, "026b0701") + END,
    ),
    "float32 in short": vector(
        var(13, "Float32", 0.1, bits="3dcccccd"), data("0d3dcccccd")
    ),
    "minus zero": vector(var(13, "Float32", "-0.0", bits="80000000"), data("0d80000000")),
    "signalling nan": vector(
        var(14, "Float64", "NaN", bits="7ff0000000000001"), data("0e7ff0000000000001")
    ),
    "go list": vector(
        {**var(23, "List", [{"t": 0, "name": "Null", "v": None}]), "container_count": "uvarint"},
        data("170100"),
    ),
    "long varint": vector(one(row="FLAG", type=30, flag=4), row(0x1E, "8800") + END),
    "unknown row": vector(one(row="UNKNOWN", type=0x7F, hex="ab"), row(0x7F, "ab") + END),
    "trace resp": vector(one(row="TRACE_RESP(cancelled)", type=26, hex=""), row(0x1A, "") + END),
    "negative kind": vector(
        one(row="ADDRESS", type=23, kind=-1, value="v"), row(0x17, "010276") + END
    ),
    "seq view": vector({"seq": [2, 2], "is_last": True}, row(0x1B, "0404") + END),
    "no id": vector({"message_id": None, "flags": []}, END),
    "event": vector({"kind": "EVENT", "is_request": False}, row(0x1E, "0c") + END),
    "op and group": vector(
        {"op": "a", "group": "g", "values": ["a", "g"]},
        row(0x17, "280261") + row(0x17, "640267") + END,
    ),
    "three messages": vector({"messages": 3, "first_consumed": 4}, END * 3),
    "bare byte": vector({"codec": "Byte", "value": "7"}, "07", name="prim_byte"),
    "bare bool": vector({"codec": "Bool", "value": True, "width": 8}, "01", name="prim_bool"),
    "bare text": vector({"codec": "LenString", "value": "hi"}, "046869", name="prim_text"),
    "bare nan": vector({"codec": "Float32", "value": "NaN"}, "7fc00000", name="prim_nan"),
    "bare infinity": vector({"codec": "Float32", "value": "+Inf"}, "7f800000", name="prim_inf"),
    "signed varint": vector({"accepted": True, "n": 2}, "8001", name="int_varint_x"),
    "bytes rule": vector(
        {
            "rule": 'HEADER name="x" Var LenBytes of "ab"*3 then END',
            "sha256": sha256(bytes.fromhex(row(0x14, "0278110c616261626162") + END)).hexdigest(),
        }
    ),
    "bytes rule in numbers": vector(
        {
            "rule": 'DATA name="k" Var LenBytes of 0xaa*3 then END',
            "head_hex": "15000007026b1106aaaaaa",
        }
    ),
    "constant rule": vector(
        {"rule": "PAYLOAD row of 3 bytes, byte[i]=0x7f, then END", "head_hex": "160000037f7f7f"}
    ),
    "xdata rule": vector(
        {
            "rule": "one XDATA row of 300 bytes, byte[i]=(i//7)&0x3f, then END",
            "total_len": 308,
            "header_hex": "1c00012c",
        }
    ),
    "nested maps": vector(
        {"rule": 'DATA "k" = 0x15 0x02 0x00 repeated M times then 0x00, M=65', "error": "TooDeep"}
    ),
    "nested at the limit": vector(
        {"rule": 'DATA "k" = 0x17 0x02 repeated N times then 0x00, N=64', "depth": 64}
    ),
    "url with everything": vector(
        {
            "host": "[::1]:80", "service": "s", "op": "a/b", "object": "1", "group": "",
            "other": {"35": "n"}, "timeout_ms": 5,
        },
        url="ESNP://u:p@[::1]:80/s/a/b?o=1&o=2&g=&a35=n&to=5#f",
    ),
    "url without op": vector({"host": "h", "service": "t", "op": None}, url="esnp://h/t"),
    "addr with everything": vector(
        {"url": "esnp://h/a%2Fb%3Fc/x%20y?o=%C3%A9&g=g&a_7=z"},
        addr={"7": "z", "10": "é", "20": "x y", "30": "a/b?c", "40": "h", "50": "g"},
    ),
    "addr of nothing": vector({"url": "esnp://_/_/_"}, addr={}),
    "addr that no url can hold": vector({"error": "BadUrl"}, addr={"40": "_"}),
    "reply to a request with repeats": vector(
        {
            "request_hex": row(0x1E, "08") + row(0x11, "00" * 7 + "01") * 2 + END,
            "request_is_request": True,
        },
        row(0x1E, "06") + row(0x1E, "08") + row(0x12, "00" * 7 + "01") * 2 + END,
    ),
    "reply in frames": vector(
        {"request_hex": row(0x10, "027300") + row(0x1E, "08") + END},
        row(0x1E, "06") + row(0x10, "027300") + row(0x1E, "08") + END,
        revision="frames",
    ),
    "trace report": vector(
        {"request_hex": row(0x1E, "08") + END, "reply_hex": TRACE_REPORT}, TRACE_REPORT
    ),
    "too large to write": vector({"encode_error": "RowTooLarge"}, name="encode_xdata_16777216"),
}  # fmt: skip

REFUSED: dict[str, tuple[str, str]] = {
    "empty": ("", "Truncated"),
    "row cut": (row(0x16, "61")[:-2], "Truncated"),
    "end with data": ("00000001ff", "BadEnd"),
    "short source id": (row(0x12, "01") + END, "BadRowSize"),
    "no version": (row(0x1F, "") + END, "BadRowSize"),
    "no int8": (data("03"), "RowTruncated"),
    "no uint8": (data("08"), "RowTruncated"),
    "half a float64": (data("0e01020304"), "LengthOverrun"),
    "no float32": (data("0d"), "LengthOverrun"),
    "long bytes": (data("110a01"), "LengthOverrun"),
    "map without entries": (data("1504"), "LengthOverrun"),
    "map without value": (data("15020261"), "RowTruncated"),
    "map key without length": (data("1502"), "LengthOverrun"),
    "negative map key": (data("15020100"), "NegativeLength"),
    "negative list": (data("1703"), "NegativeLength"),
    "seq without maximum": (row(0x1B, "02") + END, "VarintTruncated"),
    "seq with a tail": (row(0x1B, "020200") + END, "TrailingBytes"),
    "null with a tail": (data("0000"), "TrailingBytes"),
    "uint out of range": (data("078080808010"), "IntRange"),
    "xdata id out of range": (row(0x1C, "8080808020") + END, "IntRange"),
    "list count out of range": (data("178080808020"), "IntRange"),
    "overflow in an id": (row(0x1C, "ff" * 9 + "02") + END, "VarintOverflow"),
    "name not utf-8": (row(0x15, "02ff00") + END, "InvalidUtf8"),
    "map key not utf-8": (data("150202ff00"), "InvalidUtf8"),
    "address not utf-8": (row(0x17, "3c02ff") + END, "InvalidUtf8"),
    "var of an unknown type in a list": (data("17020c"), "UnknownVarType"),
    "error twice": (row(0x1D, "61") * 2 + END, "DuplicateRow"),
    "seq twice": (row(0x1B, "0202") * 2 + END, "DuplicateRow"),
    "error after a payload": (row(0x16, "") + row(0x1D, "") + END, "RowOrder"),
    "seq from zero": (row(0x1B, "0000") + END, "SeqRange"),
}


def suite(*raws: dict[str, Any]) -> Suite:
    return Suite([Case("file", number, raw) for number, raw in enumerate(raws, 1)])


@pytest.mark.parametrize("name", GOOD)
def test_other_vectors_of_the_same_kinds(name: str) -> None:
    assert outcome(GOOD[name]) is None


@pytest.mark.parametrize("name", REFUSED)
def test_other_errors_of_the_same_classes(name: str) -> None:
    text, error = REFUSED[name]
    assert outcome(vector({"error": error}, text)) is None


def test_alterations_of_them_are_noticed() -> None:
    raws = [vector({"error": error}, text) for text, error in REFUSED.values()]
    cases = suite(*GOOD.values(), *raws)
    report = check(cases, cases.cases)
    assert report.failures == []
    assert report.tried > 500


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (vector({"rows": [], "colour": 1}, END), "expect.colour"),
    "unknown key beside": (vector({"rows": []}, END, colour=1), "vector.colour"),
    "unknown revision": (vector({"rows": []}, END, revision="rows"), "revision"),
    "unknown class": (vector({"error": "Oops"}, "01"), "expect.error"),
    "unknown codec": (vector({"codec": "Int24", "value": "1"}, "02", name="prim_x"), "codec"),
    "wrong width": (
        vector({"codec": "FixInt16", "value": "1", "width": 32}, "0001", name="prim_x"), "width",
    ),
    "unknown varint": (vector({"accepted": True}, "01", name="int_x"), "name"),
    "unknown rule": (vector({"rule": "a thousand rows"}), "expect.rule"),
    "rule that is no arithmetic": (
        vector({"rule": "one PAYLOAD row of 3 bytes, byte[i]=open(i), then END"}), "arithmetic",
    ),
    "rule that is too large": (
        vector({"rule": "one PAYLOAD row of 99999999999 bytes, byte[i]=i, then END"}), "exceeds",
    ),
    "rule that cannot be written": (
        vector({"rule": "one PAYLOAD row of 16777216 bytes, byte[i]=0, then END"}), "too_large",
    ),
    "unknown thing to encode": (vector({"encode_error": "RowTooLarge"}, name="encode_x"), "name"),
    "written after all": (
        vector({"encode_error": "RowTooLarge"}, name="encode_payload_9"), "but it was encoded",
    ),
    "missing row": (vector({"rows": []}, row(0x16, "") + END), "expect.rows"),
    "broken row": (vector({"flags": []}, row(0x1E, "") + END), "varint_truncated"),
    "accepted after all": (vector({"error": "BadEnd"}, END), "expect.error"),
    "two messages": (vector({"rows": []}, END * 2), "stops at byte 4"),
    "not a url": (vector({"host": "h"}, url="http://h"), "bad_url"),
    "url after all": (vector({"error": "BadUrl"}, url="esnp://h"), "expect.error"),
    "unmentioned part": (vector({"host": "h"}, url="esnp://h/s"), "expect.service"),
    "other reply": (
        vector({"request_hex": row(0x1E, "0c") + END}, row(0x1E, "06") + row(0x1E, "0c") + END),
        "reply is",
    ),
    "row error in a whole": (
        vector({"error": "BadEnd", "row_error": True}, "00000001ff"), "row_error",
    ),
    "lenient": (
        vector(
            {"error": "DuplicateRow", "lenient": {"message_id": 2}},
            row(0x11, "00" * 7 + "01") * 2 + END,
        ),
        "lenient.message_id",
    ),
    "no sample of the also acceptable": (
        vector({"error": "BadEnd", "also_acceptable": "TooDeep"}, "01"), "Truncated",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_must_not_pass(name: str) -> None:
    raw, text = BAD[name]
    found = outcome(raw)
    assert found is not None
    assert text in found
    assert "\n" not in found


def test_the_original_s_own_answer_is_noted() -> None:
    context = Context()
    request = row(0x1E, "02") + row(0x1E, "08") + END
    answer = row(0x1E, "06") + row(0x1E, "08") + END
    expect = {"request_hex": request, "request_is_request": False}
    run(vector(expect, answer, origin="upstream-run"), context)
    assert context.notes == [FIRST_FLAG_ONLY]
    assert outcome(vector(expect, answer)) is not None
    assert outcome(vector({**expect, "request_is_request": True}, answer)) is None


def test_a_rule_is_the_message_that_it_describes() -> None:
    assert bytes_of_rule("one PAYLOAD row of 4 bytes, byte[i]=(i*31+7)&0xff, then END") == (
        bytes.fromhex(row(0x16, "07264564") + END)
    )
    assert bytes_of_rule('DATA "k" = 0x17 0x02 repeated N times then 0x00, N=2').hex() == (
        data("1702170200")
    )


def test_classes_and_excuses_are_named_once() -> None:
    assert len(CLASSES) == len(set(CLASSES))
    keys = [(code, line.fields) for line in ERRORS for code in line.codes]
    assert len(keys) == len(set(keys))
    assert all(excuse.name.startswith("esnp-") and excuse.reason for excuse in EXCUSES["esnp"])
