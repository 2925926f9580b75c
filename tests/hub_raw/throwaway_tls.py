"""A certificate for tests: it says of itself that it is to be thrown away."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.hub_raw.line import Line, dial

__all__ = ["Certificate", "dial_tls", "make_certificate"]

_NAME = "throw-away certificate of a test"


class Certificate(NamedTuple):
    """Where a certificate and its key are."""

    certificate: Path
    key: Path

    @property
    def settings(self) -> dict[str, str]:
        """A listener's `tls` table."""
        return {"certificate": str(self.certificate), "key": str(self.key)}


def make_certificate(folder: Path, name: str = "throw-away") -> Certificate:
    """A certificate for loopback addresses, signed by itself, good for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    files.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def dial_tls(address: tuple[str, int], trusted: Certificate) -> Line:
    """A connection inside TLS that trusts this certificate alone."""
    context = ssl.create_default_context(cafile=str(trusted.certificate))
    plain = dial(address).socket
    try:
        return Line(context.wrap_socket(plain, server_hostname=address[0]))
    except BaseException:
        plain.close()
        raise
