"""The tny vectors for session tests: which there are, and how their messages compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wirelake.protocols.tny.layout import Message, Mode
from wirelake.protocols.tny.transform import TransformConfig

VECTORS = Path(__file__).parents[2] / "vectors" / "tny.jsonl"
_DIALECTS = {"common": ("seed", "upstream"), "seed": ("seed",), "upstream": ("upstream",)}


def _is_relay(vector: dict[str, Any]) -> bool:
    config = vector.get("config") or {}
    return config.get("decoder") == "relay" or vector["expect"].get("packet") == "relay"


def _load() -> list[dict[str, Any]]:
    with VECTORS.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def cases(*, relay: bool) -> list[tuple[str, str, dict[str, Any]]]:
    """(name, dialect, vector) of message connections, or of relay links."""
    return [
        (vector["name"], dialect, vector)
        for vector in _load()
        for dialect in _DIALECTS[vector["dialect"]]
        if _is_relay(vector) == relay
    ]


def config_of(vector: dict[str, Any]) -> TransformConfig:
    """What the receiver of a vector has configured."""
    config = vector.get("config") or {}
    return TransformConfig(
        security_keys=tuple(config.get("security_keys", ())),
        verify=config.get("verify", False),
        encrypt=config.get("encrypt", False),
        waste=config.get("waste", False),
        max_waste_bits=config.get("max_waste_bits", 30),
    )


def view(message: Message) -> dict[str, Any]:
    """A message in the words of the vectors, without what they may leave out."""
    shown: dict[str, Any] = {
        "id": message.id,
        "mode": Mode(message.mode).name.lower(),
        "line": message.line,
        "protocol": message.protocol,
        "code": message.code,
        "to_message": message.to_message,
        "time": message.time,
    }
    if message.body is not None:
        shown["body"] = message.body.hex()
    if message.forward_header is not None:
        shown["forward_header"] = message.forward_header.hex()
    if message.headers is not None:
        shown["headers"] = [header.hex() for header in message.headers]
    return shown


def wanted(expected: dict[str, Any]) -> dict[str, Any]:
    """What a vector says of a message, as far as `view` shows it."""
    return {
        key: value
        for key, value in expected.items()
        if key not in {"option", "headers_decoded"} and not (key == "body" and value is None)
    }
