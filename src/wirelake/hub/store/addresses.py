"""Addresses of databases: which of them name PostgreSQL, and how they may be shown.

No driver is imported here: an address has to be shown without its password also when the driver is
missing, and when the address is invalid.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

__all__ = ["is_postgres", "shown"]

_SCHEMES: Final = ("postgresql://", "postgres://")
_HIDDEN: Final = "***"
_SHOWN: Final = frozenset(
    {
        *("application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname"),
        *("gssencmode", "host", "hostaddr", "keepalives", "keepalives_count", "keepalives_idle"),
        *("keepalives_interval", "krbsrvname", "load_balance_hosts", "options", "passfile", "port"),
        *("require_auth", "requirepeer", "service", "ssl_max_protocol_version"),
        *("ssl_min_protocol_version", "sslcert", "sslcertmode", "sslcrl", "sslcrldir", "sslkey"),
        *("sslmode", "sslnegotiation", "sslrootcert", "sslsni", "target_session_attrs"),
        *("tcp_user_timeout", "user"),
    }
)
"""Parameters of an address that contain no secret. All others are hidden: a parameter that is
misspelled may be a password."""


def is_postgres(target: str | Path) -> bool:
    """Return whether a database is named by the URL of a PostgreSQL server."""
    return isinstance(target, str) and target.lower().startswith(_SCHEMES)


def shown(target: str | Path) -> str:
    """Return a database as it may be shown: without a password."""
    text = str(target)
    if not is_postgres(text):
        return text
    scheme, _, rest = text.partition("://")
    # The last @: a password with an @, / or ? that is not percent-encoded must not be shown either.
    # In the worst case hosts are hidden as well.
    login, at, place = rest.rpartition("@")
    user = re.split(r"[:/?&=]", login, maxsplit=1)[0]
    hidden = "" if user == login else f":{_HIDDEN}"
    # Also after an & where a ? is missing.
    place, *parameters = re.split(r"([?&])", place)
    shown_parameters = "".join(
        each if each in ("?", "&") else _shown_parameter(each) for each in parameters
    )
    return f"{scheme}://{user}{hidden}{at}{place}{shown_parameters}"


def _shown_parameter(text: str) -> str:
    name, _, _ = text.partition("=")
    return text if unquote(name) in _SHOWN else f"{name if len(name) < 40 else ''}={_HIDDEN}"
