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

from ..errors import ConfigurationError
from .address import TLSSettings

_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{what} {path!r} cannot be read: {error}") from error


def _certificates(path: str, what: str) -> list[Certificate]:
    blocks = _CERTIFICATE.findall(_read(path, what))
    try:
        return [Certificate.loadPEM(block) for block in blocks]
    except (crypto.Error, ValueError) as error:
        raise ConfigurationError(f"{what} {path!r} is damaged: {error}") from error


def _trusted(settings: TLSSettings) -> list[Certificate]:
    found: list[Certificate] = []
    if settings.ca_file is not None:
        found = _certificates(settings.ca_file, "CA file")
        if not found:
            raise ConfigurationError(
                f"CA file {settings.ca_file!r} holds no certificate"
            )
    if settings.ca_path is not None:
        try:
            files = sorted(p for p in Path(settings.ca_path).iterdir() if p.is_file())
        except OSError as error:
            raise ConfigurationError(
                f"CA path {settings.ca_path!r} cannot be read: {error}"
            ) from error
        inside = [c for path in files for c in _certificates(str(path), "CA file")]
        if not inside:
            raise ConfigurationError(
                f"CA path {settings.ca_path!r} holds no certificate"
            )
        found += inside
    return found


def _identity(settings: TLSSettings) -> dict[str, Any]:
    """
    Give our certificate as arguments of ``CertificateOptions``.
    """
    if settings.cert_file is None:
        if settings.key_file is not None:
            raise ConfigurationError(
                f"client key {settings.key_file!r} without a client certificate"
            )
        return {}
    chain = _certificates(settings.cert_file, "client certificate")
    if not chain:
        raise ConfigurationError(
            f"client certificate {settings.cert_file!r} holds no certificate"
        )
    key_file = settings.key_file or settings.cert_file
    try:
        # Without a callback OpenSSL would ask the terminal for a passphrase.
        key = crypto.load_privatekey(
            crypto.FILETYPE_PEM, _read(key_file, "client key"), b""
        )
    except (crypto.Error, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"client key {key_file!r} is not an unencrypted PEM key: {error}"
        ) from error
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    try:
        context.use_certificate(chain[0].original)
        context.use_privatekey(key)
    except SSL.Error as error:
        raise ConfigurationError(
            f"client key {key_file!r} is not the key of {settings.cert_file!r}"
        ) from error
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

    :raises ConfigurationError: naming the file that does not serve.
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
