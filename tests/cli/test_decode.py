"""`wirelake decode`: trees, JSON lines, several messages, bad ones among them, sealed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

VECTORS = Path(__file__).parents[1] / "vectors"
AUTH = (
    "003a00001063303130303030313030303061626364002574353530653834"
    "30302d653239622d343164342d613731362d343436363535343430303030"
)
TOKEN = "550e8400"
REQUEST = "746e792e001400000001010104e9076400d2edffa987300568656c6c6f"


def vector(protocol: str, name: str) -> dict[str, Any]:
    """A test vector by name."""
    for line in (VECTORS / f"{protocol}.jsonl").read_text(encoding="utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["name"] == name:
            return found
    raise LookupError(name)


def keys_file(folder: Path, keys: Any) -> str:
    """A file of keys."""
    path = folder / "keys.json"
    path.write_text(json.dumps(keys), encoding="utf-8")
    return str(path)


# -- trees -----------------------------------------------------------------------------------


def test_a_tree(run: Run) -> None:
    found = run("decode", "comet", "--direction", "s2c", "--hex", "0001 00")
    lines = (
        "comet ok  message 1, 3 bytes at 0\n"
        "0000  00 01                   length             1\n"
        "0002  00                      type               0\n"
        "0003                          body               ok\n"
    )
    assert found == (0, lines, "")


def test_secrets_are_masked_in_values_and_bytes(run: Run) -> None:
    found = run("decode", "comet", "--direction", "c2s", "--hex", AUTH)
    assert found.code == 0
    assert "<secret, 39 bytes>" in found.out
    assert TOKEN not in found.out
    assert "74 35 35" not in found.out
    revealed = run("decode", "comet", "--direction", "c2s", "--hex", AUTH, "--reveal")
    assert f"'t{TOKEN}" in revealed.out


@pytest.mark.parametrize("cut", range(2, len(AUTH) // 2))
def test_a_damaged_message_shows_no_secret(run: Run, cut: int) -> None:
    raw = bytes.fromhex(AUTH)
    body = raw[3:cut] if cut > 3 else b""
    broken = (len(body) + 1).to_bytes(2, "big") + b"\0" + body
    found = run("decode", "comet", "--direction", "c2s", "--hex", broken.hex())
    assert found.code == 1
    assert TOKEN not in found.out + found.err
    assert TOKEN.encode().hex(" ") not in found.out
    assert "74 35 35" not in found.out


def test_bits_stages_and_labels(run: Run) -> None:
    out = run("decode", "tny", "--hex", REQUEST).out
    assert "0004  .... ..00                 type             0 (MESSAGE)" in out
    assert "0002  e9 07                         protocol       1001" in out
    assert "b'hello'" in out


def test_rows_and_values(run: Run) -> None:
    hex_text = vector("esnp", "order_request_id_address_data")["hex"]
    lines = run("decode", "esnp", "--hex", hex_text).lines
    assert "0004  08                          value            4 (REQUEST)" in lines
    assert "002a  05 02                       value            int32 1" in lines


# -- input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["000106", "00 01 06", "00:01:06", "0x000106", "00-01\n06"])
def test_forms_of_hexadecimal(run: Run, text: str) -> None:
    found = run("decode", "comet", "--direction", "c2s", "--json", "--hex", text)
    assert found == (0, '{"type": "heartbeat"}\n', "")


@pytest.mark.parametrize("text", ["0", "zz", "00 0", "é"])
def test_bad_hexadecimal(run: Run, text: str) -> None:
    found = run("decode", "comet", "--direction", "c2s", "--hex", text)
    assert found.code == 2
    assert "even number of hexadecimal digits" in found.err


def test_files_and_standard_input(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "messages.bin"
    path.write_bytes(bytes.fromhex("000106000105"))
    wanted = '{"type": "heartbeat"}\n{"type": "get_message_list"}\n'
    args = ("decode", "comet", "--direction", "c2s", "--json")
    assert run(*args, str(path)) == (0, wanted, "")
    assert run(*args, "-", stdin=path.read_bytes()) == (0, wanted, "")
    assert run(*args, stdin=path.read_bytes()) == (0, wanted, "")


def test_nothing_to_decode(run: Run) -> None:
    found = run("decode", "esnp", "--hex", "")
    assert found == (1, "", "wirelake: empty input: no bytes to decode\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("comet", "--hex", "000106"), "--direction c2s or s2c"),
        (("comet", "f", "--hex", "00", "--direction", "c2s"), "--hex conflicts with FILE"),
        (
            ("tny", "--hex", "00", "--dialect", "x"),
            "unknown dialect 'x' of tny; expected one of seed, upstream",
        ),
        (
            ("tny", "--hex", "00", "--revision", "lines"),
            "unknown revision 'lines' of tny; there are none",
        ),
        (("esnp", "--hex", "00", "--keys", "f"), "esnp has no sealed parts"),
        (("relay", "--hex", "00", "--keys", "f"), "relay has no sealed parts"),
    ],
)
def test_bad_usage(run: Run, args: tuple[str, ...], words: str) -> None:
    found = run("decode", *args)
    assert found.code == 2
    assert words in found.err


# -- bad messages ----------------------------------------------------------------------------


def test_a_bad_message_hides_none_behind_it(run: Run) -> None:
    found = run("decode", "comet", "--direction", "c2s", "--json", "--hex", "000106 000109 000106")
    assert found.code == 1
    assert found.lines == ['{"type": "heartbeat"}'] * 2
    assert found.err.startswith("wirelake: message 2 at byte 3: unknown_type in frame.type")


def test_where_the_frame_is_lost_the_rest_is(run: Run) -> None:
    found = run("decode", "tny", "--json", "--hex", "746e792e0500000000 ffff")
    assert found.code == 1
    assert len(found.lines) == 1
    assert "message 2 at byte 9: bad_magic" in found.err
    assert "skipped the last 2 bytes" in found.err


def test_an_incomplete_message(run: Run) -> None:
    found = run("decode", "comet", "--direction", "c2s", "--hex", "000106 00")
    assert found.code == 1
    assert "message 2 at byte 3: incomplete, 1 byte present, need at least 1 more byte" in found.err


def test_the_tree_of_a_bad_message_ends_at_the_place(run: Run) -> None:
    found = run("decode", "comet", "--direction", "c2s", "--hex", "000603010009406e")
    assert found.code == 1
    assert found.lines[-1].strip().startswith("^ length_overrun in subscribe.topics at byte 6")


def test_invalid_rows_are_shown_and_reported(run: Run) -> None:
    found = run("decode", "esnp", "--hex", "1c0000001e0000010800000000")
    assert found.code == 1
    assert "^ varint_truncated in xdata.id" in found.out
    assert "4 (REQUEST)" in found.out
    assert "row 0: varint_truncated in xdata.id" in found.err
    as_json = run("decode", "esnp", "--json", "--hex", "1c0000001e0000010800000000")
    assert json.loads(as_json.out)["rows"][0]["type"] == "broken_row"


# -- revisions -------------------------------------------------------------------------------


def test_revision_lines_warns_of_the_order(run: Run) -> None:
    disordered = "16000000" + "1e00000108" + "00000000"
    lines = run("decode", "esnp", "--revision", "lines", "--hex", disordered)
    assert lines.code == 0
    assert "warning: message 1 at byte 0: row_order" in lines.err
    assert run("decode", "esnp", "--revision", "frames", "--hex", disordered).err == ""


def test_flag_7_has_a_name_in_lines_only(run: Run) -> None:
    flag = "1e0000010e00000000"
    assert "7 (ASYNC)" in run("decode", "esnp", "--revision", "lines", "--hex", flag).out
    frames = run("decode", "esnp", "--revision", "frames", "--hex", flag).out
    assert "ASYNC" not in frames
    assert " 7" in frames


# -- keys ------------------------------------------------------------------------------------


def test_keys_of_tny(run: Run, tmp_path: Path) -> None:
    file = keys_file(tmp_path, {"security_keys": ["tny-secret-key"]})
    sealed = "746e792e0815000000b9600145df5b2727d07a92aa68615650a4da0f25f7"
    args = ("decode", "tny", "--dialect", "upstream", "--hex", sealed)
    opened = json.loads(run(*args, "--json", "--keys", file).out)["@opened"]
    assert opened["message"]["body"] == b"hello".hex()
    assert "b'hello'" in run(*args, "--keys", file).out
    closed = run(*args)
    assert closed.code == 0
    assert "b'hello'" not in closed.out


def test_keys_of_magline(run: Run, tmp_path: Path) -> None:
    file = keys_file(tmp_path, vector("magline", "ack")["expect"]["keys"])
    request = vector("magline", "req")["hex"]
    found = json.loads(run("decode", "magline", "--json", "--keys", file, "--hex", request).out)
    assert found["@opened"] == {"data": b"hello".hex(), "hmac_state": "valid"}
    bad = vector("magline", "sess_bad_hmac")["hex"]
    refused = run("decode", "magline", "--keys", file, "--hex", bad + request)
    assert refused.code == 1
    assert "message 1 at byte 0 cannot be decrypted: bad_record" in refused.err
    assert f'opened data: "{b"hello".hex()}"' in refused.out


def test_keys_of_comet(run: Run, tmp_path: Path) -> None:
    sealed = vector("comet", "message_encrypted")
    file = keys_file(tmp_path, {"content_key": sealed["expect"]["content_key_hex"]})
    args = ("decode", "comet", "--direction", "s2c", "--keys", file, "--hex", sealed["hex"])
    assert 'opened content: "hello"' in run(*args).out


@pytest.mark.parametrize(
    ("protocol", "keys", "words"),
    [
        ("tny", {"nope": 1}, "unknown key 'nope'"),
        ("tny", {"security_keys": "x"}, "expected a list of strings"),
        ("tny", {"security_keys": [""]}, "bad_config"),
        ("tny", {"verify": 1}, "verify: expected true or false"),
        ("tny", {"skip_step": True}, "skip_step: expected an integer"),
        ("magline", {"x": "00"}, "expected c2s_enc"),
        ("magline", {"c2s_enc": 5}, "c2s_enc: expected a hexadecimal string"),
        ("magline", {"c2s_enc": "zz"}, "c2s_enc: not hexadecimal"),
        ("magline", {"c2s_enc": "00", "c2s_iv": "00"}, "bad_config"),
        ("comet", {"x": 1}, "expected content_key"),
        ("comet", {"content_key": "zz"}, "content_key: not hexadecimal"),
        ("comet", {"content_key": "00"}, "bad_config"),
        ("comet", [], "expected a JSON object"),
    ],
)
def test_bad_keys(run: Run, tmp_path: Path, protocol: str, keys: Any, words: str) -> None:
    file = keys_file(tmp_path, keys)
    found = run("decode", protocol, "--direction", "s2c", "--keys", file, "--hex", "00")
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert found.err.count("\n") == 1


def test_keys_that_are_no_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b"\xff{")
    found = run("decode", "tny", "--keys", str(path), "--hex", "00")
    assert found.code == 2
    assert "invalid JSON" in found.err
    missing = run("decode", "tny", "--keys", str(tmp_path / "none"), "--hex", "00")
    assert missing.code == 2
    assert "No such file" in missing.err
