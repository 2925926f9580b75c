"""Which tokens are valid: signatures, keys and claims, and tokens that somebody made up."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from wirelake.hub.auth import read_secret
from wirelake.hub.config import AuthSettings, ConfigError, make_config
from wirelake.hub.signed_tokens import Credential, Issuers, Proof, RefusedTokenError
from wirelake.hub.signed_tokens.parsing import MAX_TOKEN_BYTES, parse_token
from wirelake.protocols.hub_calls import MAX_CLIENT_ID_BYTES

from .issuing import ISSUER, NEW_KEYS, Signer, jwks, part


def settings(*issuers: dict[str, Any]) -> AuthSettings:
    return make_config({"auth": {"issuers": list(issuers)}}).auth


def verified(
    token: str, *issuers: dict[str, Any], client: str | None = "alice", now: float | None = None
) -> Proof:
    """What a token proves to these issuers."""

    async def run() -> Proof:
        made = Issuers(read_secret, time.monotonic)
        made.prepare(settings(*issuers))()
        try:
            now_ms = int((time.time() if now is None else now) * 1000)
            return await made.verify(token, client, lambda: now_ms)
        finally:
            await made.stop()

    return asyncio.run(run())


def refused(token: str, *issuers: dict[str, Any], **options: Any) -> str:
    """Why a token is refused."""
    with pytest.raises(RefusedTokenError) as error:
        verified(token, *issuers, **options)
    return str(error.value)


@pytest.mark.parametrize("algorithm", NEW_KEYS)
def test_algorithms(tmp_path: Path, algorithm: str) -> None:
    signer = Signer(tmp_path, algorithm)
    proof = verified(signer.token("alice", exp=2e9), signer.settings)
    assert proof[:2] == ("alice", ISSUER)
    assert (proof.expires_ms, proof.rights, proof.role) == (2_000_000_010_000, None, "")
    other = Signer(tmp_path, algorithm)
    assert "of no known key" in refused(other.token("alice"), signer.settings)


def test_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("throw-away-" * 8 + "\n")
    path.chmod(0o600)
    issuer = {
        "issuer": ISSUER,
        "audience": "wirelake",
        "secret": str(path),
        "algorithms": ["HS256"],
    }
    claims = {"iss": ISSUER, "aud": ["other", "wirelake"], "sub": "alice", "exp": 2e9}
    secret = path.read_text().strip()
    assert verified(jwt.encode(claims, secret, "HS256"), issuer).client_id == "alice"
    assert "of no known key" in refused(jwt.encode(claims, secret + "x", "HS256"), issuer)
    assert "algorithm" in refused(jwt.encode(claims, secret, "HS384"), issuer)


# -- claims --------------------------------------------------------------------------------------

NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "no such issuer"),
        ({"iss": None}, "no such issuer"),
        ({"aud": "elsewhere"}, "aud does not contain 'wirelake'"),
        ({"aud": ["elsewhere"]}, "aud does not contain"),
        ({"aud": {"wirelake": 1}}, "aud does not contain"),
        ({"aud": None}, "aud does not contain"),
        ({"exp": None}, "exp is missing"),
        ({"exp": NOW - 10}, "expired"),
        ({"exp": "2030"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": -1}, "exp is not a time"),
        ({"exp": NOW * 1000}, "exp is not a time"),
        ({"exp": 10**400}, "exp is not a time"),
        ({"nbf": NOW + 11}, "not valid yet (claim nbf)"),
        ({"nbf": [1]}, "nbf is not a time"),
        ({"iat": NOW + 11}, "not valid yet (claim iat)"),
        ({"sub": "bob"}, "sub is not the id of the sign-on"),
        ({"sub": None}, "sub is missing"),
        ({"sub": 7}, "sub is missing or not text"),
        ({"sub": "~1"}, "invalid client id"),
        ({"sub": ""}, "invalid client id of 0 bytes"),
        ({"sub": "a\nb"}, "invalid client id"),
        ({"sub": "\ud800"}, "not valid JSON"),
        ({"sub": "a" * (MAX_CLIENT_ID_BYTES + 1)}, "invalid client id of 257 bytes"),
        ({"wirelake": ["publish"]}, "wirelake is not an object with rights"),
        ({"wirelake": {"ids": ["**"]}}, "wirelake is not an object with rights"),
        ({"wirelake": {"publishes": []}}, "unknown field `publishes`"),
        ({"wirelake": {"publish": "@a"}}, "Expected `array`"),
        ({"wirelake": {"call": ["nothing"]}}, "invalid pattern 'nothing'"),
        ({"wirelake": {"calls_per_s": -1}}, "calls_per_s"),
    ],
)  # fmt: skip
def test_invalid_claims(tmp_path: Path, claims: dict[str, Any], reason: str) -> None:
    signer = Signer(tmp_path)
    token = signer.token("alice", **{"exp": NOW + 60, "iat": NOW, **claims})
    assert reason in refused(token, signer.settings, now=NOW)


@pytest.mark.parametrize(
    "claims",
    [{"exp": NOW - 9}, {"nbf": NOW + 10}, {"iat": NOW + 9.5}, {"aud": ["a", "wirelake"]}, {"x": 1}],
)
def test_valid_claims(tmp_path: Path, claims: dict[str, Any]) -> None:
    signer = Signer(tmp_path)
    token = signer.token("alice", **{"exp": NOW + 60, "iat": NOW, **claims})
    assert verified(token, signer.settings, now=NOW).client_id == "alice"


def test_the_id_of_another_claim(tmp_path: Path) -> None:
    signer = Signer(tmp_path)
    issuer = {**signer.settings, "id_claim": "device"}
    assert verified(signer.token("u", device="d-1"), issuer, client="d-1").client_id == "d-1"
    assert verified(signer.token("u", device="d-1"), issuer, client="").client_id == "d-1"
    assert "device is missing" in refused(signer.token("d-1"), issuer, client="d-1")


def test_rights_and_roles(tmp_path: Path) -> None:
    signer = Signer(tmp_path)
    issuer = {**signer.settings, "rights_claim": "r", "role_claim": "role"}
    claims = {"r": {"publish": ["@a/*"], "calls_per_s": 5}, "role": "viewer"}
    proof = verified(signer.token("alice", **claims), issuer)
    assert proof.rights is not None
    assert (proof.rights.publish, proof.rights.calls_per_s) == (("@a/*",), 5)
    assert proof.rights.subscribe == ("**",)
    assert proof.role == "viewer"
    assert verified(signer.token("alice", **claims), signer.settings).role == ""
    assert "role is not text" in refused(signer.token("alice", role=["operator"]), issuer)


# -- tokens that somebody made up ----------------------------------------------------------------


def _hostile(signer: Signer, token: str) -> dict[str, str]:
    head, payload, signature = token.split(".")
    none, hs256 = part(b'{"alg":"none"}'), part(b'{"alg":"HS256"}')
    other_case, wrong_type = part(b'{"alg":"NonE"}'), part(b'{"alg":["EdDSA"]}')
    hmac = jwt.get_algorithm_by_name("HS256")
    text = f"{hs256}.{payload}"
    confused = {
        f"confusion {name}": f"{text}.{part(hmac.sign(text.encode(), key))}"
        for name, key in (("pem", signer.pem), ("jwk", json.dumps(signer.jwk).encode()))
    }
    claims = parse_token(token).claims
    with_name = json.dumps(claims)[:-1].encode()  # without the brace
    header = b'{"alg":"EdDSA"}'
    jwk_header = json.dumps({"alg": "EdDSA", "jwk": Signer(signer.file.parent).jwk}).encode()
    return {
        **confused,
        "none": f"{none}.{payload}.",
        "none with a signature": f"{none}.{payload}.{signature}",
        "none in another case": f"{other_case}.{payload}.{signature}",
        "no algorithm": f"{part(b'{}')}.{payload}.{signature}",
        "algorithm of a wrong type": f"{wrong_type}.{payload}.{signature}",
        "no signature": f"{head}.{payload}.",
        "other claims": f"{head}.{part(with_name + b'}')}.{signature}",
        "cut off": token[:-3],
        "longer": token + "AAAA",
        "padding": token + "==",
        "spaces": f"{head}.{payload} .{signature}",
        "line breaks": f"{head}.{payload}\n.{signature}",
        "not base64": f"{head}.{payload}.é{signature}",
        "surrogates": f"{head}.{payload}.\udc80",
        "empty parts": "..",
        "four parts": f"{token}.x",
        "huge": f"{head}.{payload}.{'A' * MAX_TOKEN_BYTES}",
        "deep": signer.signed(header, b'{"a":' * 300 + b"[" * 500),
        "deep and complete": signer.signed(header, b'{"a":' + b"[" * 500 + b"]" * 500 + b"}"),
        "array": signer.signed(header, b"[]"),
        "invalid UTF-8": signer.signed(header, b'{"iss":"\xff"}'),
        "UTF-16": signer.signed(header, '{"iss":"x"}'.encode("utf-16")),
        "not a number": signer.signed(header, with_name + b',"nbf":NaN}'),
        "infinite": signer.signed(header, with_name + b',"nbf":1e999}'),
        "many digits": signer.signed(header, with_name + b',"nbf":' + b"9" * 1500 + b"}"),
        "repeated claim": signer.signed(header, with_name + b',"sub":"alice"}'),
        "repeated algorithm": signer.signed(b'{"alg":"none","alg":"EdDSA"}', with_name + b"}"),
        "critical": signer.signed(b'{"alg":"EdDSA","crit":["exp"]}', with_name + b"}"),
        "b64": signer.signed(b'{"alg":"EdDSA","b64":false}', with_name + b"}"),
        "other type": signer.signed(b'{"alg":"EdDSA","typ":"logout+jwt"}', with_name + b"}"),
        "type of a wrong type": signer.signed(b'{"alg":"EdDSA","typ":1}', with_name + b"}"),
        "kid of a wrong type": signer.signed(b'{"alg":"EdDSA","kid":{}}', with_name + b"}"),
        "key in the header": Signer(signer.file.parent).signed(jwk_header, with_name + b"}"),
    }


def test_hostile_tokens(tmp_path: Path) -> None:
    signer = Signer(tmp_path)
    token = signer.token()
    everything = {**signer.settings, "algorithms": ["EdDSA", "RS256", "ES256"]}
    assert verified(token, everything).client_id == "alice"
    for name, hostile in _hostile(signer, token).items():
        assert refused(hostile, everything), name
        for piece in hostile.split("."):
            assert len(piece) < 8 or piece not in refused(hostile, everything), name


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_changed_bytes(tmp_path: Path, cut: int) -> None:
    signer = Signer(tmp_path)
    token = signer.token()
    changed = "B" if token[cut] != "B" else "C"
    assert refused(token[:cut] + changed + token[cut + 1 :], signer.settings)


def test_a_token_of_another_issuer_with_this_name(tmp_path: Path) -> None:
    one = Signer(tmp_path, iss="https://one.example")
    two = Signer(tmp_path, iss="https://two.example")
    stolen = two.token("alice", iss=one.iss)  # signed with a key that is known, of another issuer
    assert "of no known key" in refused(stolen, one.settings, two.settings)


def test_keys_are_chosen_by_their_id(tmp_path: Path) -> None:
    one, two = (Signer(tmp_path, key_id=name) for name in ("one", "two"))
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks(one, two))
    issuer = {**one.settings, "keys": str(file)}
    assert verified(one.token(), issuer).key != verified(two.token(), issuer).key
    assert verified(two.token(header={"kid": None}), issuer)
    for kid in ("three", "one"):
        assert "of no known key" in refused(two.token(header={"kid": kid}), issuer)


def test_a_key_that_is_used_with_another_algorithm(tmp_path: Path) -> None:
    signer = Signer(tmp_path, "RS256", key_id="a")
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [{**signer.jwk, "alg": "PS256"}]}))
    issuer = {**signer.settings, "keys": str(file), "algorithms": ["RS256", "PS256"]}
    assert "of no known key" in refused(signer.token(), issuer)


# -- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"issuer": ""}, r"issuers\[0\].issuer: expected text"),
        ({"audience": ""}, r"issuers\[0\].audience: expected text"),
        ({"keys": ""}, "expected either keys or secret"),
        ({"secret": "x"}, "expected either keys or secret"),
        ({"algorithms": []}, "algorithms: expected one"),
        ({"algorithms": ["none"]}, "algorithms"),
        ({"algorithms": ["ES256", "HS256"]}, "HS256 needs secret, not keys"),
        ({"keys": "", "secret": "x", "algorithms": ["HS256", "ES256"]}, "ES256 needs keys, not s"),
        ({"keys": "http://id.example.com/jwks"}, "expected an https:// address"),
        ({"keys": "ftp://127.0.0.1/jwks"}, "expected an https:// address"),
        ({"keys": "https://user:hunter2@id.example.com/"}, "without a password"),
        ({"keys": "https://id.example.com/#x"}, "invalid address"),
        ({"keys": "https://id.example.com/a\r\nb"}, "invalid address"),
        ({"keys": "https://id.example.com:99999/"}, "invalid address"),
        ({"keys": "https://"}, "invalid address"),
        ({"leeway_s": 301}, "leeway_s: invalid value 301"),
        ({"retry_s": 0}, "retry_s: invalid value 0"),
        ({"secrets": "x"}, "unknown key 'secrets'"),
    ],
)
def test_invalid_settings(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        settings({**Signer(tmp_path).settings, **changes})
    assert "hunter2" not in str(error.value)


def test_an_issuer_that_is_listed_twice(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"issuers\[1\].issuer: this issuer is already listed"):
        settings(Signer(tmp_path).settings, Signer(tmp_path).settings)


def test_what_is_kept_of_a_token(tmp_path: Path) -> None:
    signer = Signer(tmp_path)
    token = signer.token("alice", wirelake={"call": ["a/*"]})
    kept = Credential.of(verified(token, signer.settings))
    assert Credential.decode(kept.encoded()) == kept
    assert token.rpartition(".")[2].encode() not in kept.encoded()


def test_a_package_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in list(sys.modules):
        if name == "jwt" or name.startswith(("jwt.", "wirelake.hub.signed_tokens.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jwt", None)
    made = Issuers(read_secret, time.monotonic)
    with pytest.raises(ConfigError, match=r"PyJWT: pip install 'wirelake\[jwt\]'"):
        made.prepare(settings(Signer(tmp_path).settings))
    made.prepare(settings())  # not needed without issuers
