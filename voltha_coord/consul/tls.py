"""
TLS to an agent: whom to trust, and our own certificate.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from zope.interface import implementer

from .address import TLSSettings, UnusableFile

_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


#: What people call the file of each field.
_NAMES = {
    "ca_file": "CA file",
    "ca_path": "CA path",
    "cert_file": "client certificate",
    "key_file": "client key",
}


def _bad(setting: str, path: str, why: str) -> UnusableFile:
    return UnusableFile(setting, f"{_NAMES[setting]} {path!r} {why}")


def _unreadable(setting: str, path: str, error: OSError) -> UnusableFile:
    # Without its own text, which has the path once more.
    return _bad(setting, path, f"cannot be read: {error.strerror or error}")


def _words(error: Exception) -> str:
    """
    Say what OpenSSL says, which comes as a list of triples.
    """
    reasons = [
        str(each[-1]) for each in (error.args or ((),))[0] if isinstance(each, tuple)
    ]
    return ", ".join(reasons) or str(error) or type(error).__name__


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(setting, path, error) from error


def _certificates(path: str, setting: str) -> list[Certificate]:
    blocks = _CERTIFICATE.findall(_read(path, setting))
    try:
        return [Certificate.loadPEM(block) for block in blocks]
    except (crypto.Error, ValueError) as error:
        raise _bad(setting, path, f"is damaged: {_words(error)}") from error


def _trusted(settings: TLSSettings) -> list[Certificate]:
    found: list[Certificate] = []
    if settings.ca_file is not None:
        found = _certificates(settings.ca_file, "ca_file")
        if not found:
            raise _bad("ca_file", settings.ca_file, "holds no certificate")
    if settings.ca_path is not None:
        try:
            files = sorted(p for p in Path(settings.ca_path).iterdir() if p.is_file())
        except OSError as error:
            raise _unreadable("ca_path", settings.ca_path, error) from error
        inside = [c for path in files for c in _certificates(str(path), "ca_path")]
        if not inside:
            raise _bad("ca_path", settings.ca_path, "holds no certificate")
        found += inside
    return found


def _identity(settings: TLSSettings) -> dict[str, Any]:
    """
    Give our certificate as arguments of ``CertificateOptions``.
    """
    if settings.cert_file is None:
        if settings.key_file is not None:
            raise _bad("key_file", settings.key_file, "without a client certificate")
        return {}
    chain = _certificates(settings.cert_file, "cert_file")
    if not chain:
        raise _bad("cert_file", settings.cert_file, "holds no certificate")
    key_file = settings.key_file or settings.cert_file
    key_setting = "key_file" if settings.key_file else "cert_file"
    content = _read(key_file, key_setting)
    try:
        # Without a callback OpenSSL would ask the terminal for a passphrase.
        key = crypto.load_privatekey(crypto.FILETYPE_PEM, content, b"")
    except (crypto.Error, ValueError, TypeError) as error:
        why = f"holds no unencrypted PEM key: {_words(error)}"
        raise _bad(key_setting, key_file, why) from error
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    try:
        context.use_certificate(chain[0].original)
        context.use_privatekey(key)
    except SSL.Error as error:
        why = f"does not hold the key of {settings.cert_file!r}"
        raise _bad(key_setting, key_file, why) from error
    return {
        "privateKey": key,
        "certificate": chain[0].original,
        "extraCertChain": [link.original for link in chain[1:]],
    }


@implementer(IOpenSSLClientConnectionCreator)
class _Unverified:
    """
    Encrypts, and believes whatever certificate it is shown.
    """

    def __init__(self, context: SSL.Context, name: str) -> None:
        self._context = context
        self._name = name

    def clientConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:  # noqa: N802, N803 (Twisted's names)
        """
        Make a connection that names the server but does not check it.
        """
        connection = SSL.Connection(self._context, None)
        connection.set_app_data(tlsProtocol)
        try:
            ip_address(self._name)
        except ValueError:
            connection.set_tlsext_host_name(self._name.encode("ascii"))
        return connection


class TLSContext:
    """
    The files of :class:`TLSSettings`, read once.

    :raises UnusableFile: naming the file that does not serve.
    """

    def __init__(self, settings: TLSSettings) -> None:
        self._settings = settings
        self._identity = _identity(settings)
        trusted = _trusted(settings)
        self._trust = trustRootFromCertificates(trusted) if trusted else platformTrust()

    def creator(self, host: str) -> IOpenSSLClientConnectionCreator:
        """
        Give what makes connections to the agent at ``host``.
        """
        name = self._settings.server_name or host
        if not self._settings.verify:
            options = CertificateOptions(**self._identity)
            return _Unverified(options.getContext(), name)
        return optionsForClientTLS(
            name, trustRoot=self._trust, extraCertificateOptions=self._identity
        )
