"""Server-side TLS contexts of listeners and of the admin server."""

from __future__ import annotations

import ssl

from wirelake.protocols.binding import TlsSettings

from ..config import ConfigError

__all__ = ["load_certificates", "tls_context"]


def tls_context(settings: TlsSettings | None) -> ssl.SSLContext | None:
    """Return the context for these settings; None without TLS."""
    if settings is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_certificates(context, settings)
    return context


def load_certificates(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Load certificate, key and authorities; open connections keep the old ones."""
    try:
        context.load_cert_chain(settings.certificate, settings.key)
        if settings.client_ca:
            context.load_verify_locations(settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"tls: {settings.certificate}: {error}") from error
