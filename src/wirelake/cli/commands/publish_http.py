"""Publishing over the hub's admin address."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from ..errors import BAD_DATA, CommandError
from .client_run import tls_context

__all__ = ["publish_http"]


def publish_http(
    url: str,
    content: bytes,
    given: dict[str, Any],
    token_file: str | None,
    ca: str | None,
    timeout_s: float,
) -> dict[str, Any]:
    """Posts to `/v1/publish`; the answer, or one line of what is wrong."""
    if token_file is None:
        raise click.UsageError(
            "--admin-token-file is missing: the file admin.token in the hub's data directory"
        )
    token = Path(token_file).read_text(encoding="utf-8").strip()
    body = {name: value for name, value in given.items() if value is not None}
    try:
        body["content"] = content.decode()
    except UnicodeDecodeError:
        body["content_base64"] = base64.b64encode(content).decode()
    request = urllib.request.Request(
        f"{url.rstrip('/')}/v1/publish",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    context = tls_context(ca) if ca is not None else None
    try:
        with urllib.request.urlopen(request, timeout=timeout_s, context=context) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise CommandError(f"{url}: {_refusal(error)}", BAD_DATA) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or reason
        raise CommandError(f"{url}: {why}", BAD_DATA) from error
    if not isinstance(answer, dict) or not {"id", "audience"} <= set(answer):
        raise CommandError(f"{url}: this is no hub", BAD_DATA)
    return answer


def _refusal(error: urllib.error.HTTPError) -> str:
    """What a refusal says: the hub's JSON has a message, others have a status."""
    try:
        said = json.load(error)
    except ValueError:
        said = None
    text = said.get("message") if isinstance(said, dict) else None
    return f"{text or error.reason} ({error.code})"
