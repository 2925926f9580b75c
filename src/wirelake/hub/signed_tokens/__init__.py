"""Sign-on with tokens that others sign: JSON Web Tokens (RFC 7519, RFC 8725).

    issuers   what the hub asks: which client is this token for, and is that still true
    clients   clients of the store that only an issuer knows
    sources   the keys of an issuer: of files, or of an address that is read in the background
    fetch     reads an address within limits of time and size
    keys      keys in PEM and JWKS, and signatures; the only module that imports PyJWT
    parsing   the three parts of a token, before anything in it is believed
    claims    what a verified token says

Only `keys` needs PyJWT (`pip install 'wirelake[jwt]'`); it is imported when issuers are configured.
"""

from .claims import Proof
from .clients import SignedClients
from .errors import RefusedTokenError
from .issuers import Credential, Issuers, is_signed_credential, looks_signed

__all__ = [
    "Credential",
    "Issuers",
    "Proof",
    "RefusedTokenError",
    "SignedClients",
    "is_signed_credential",
    "looks_signed",
]
