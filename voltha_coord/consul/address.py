"""
Where Consul is, and with what to be let in.  Pure.

Addresses are taken in every form people write them, and the environment
variables mean what they mean to the ``consul`` command:

* once ``CONSUL_HTTP_SSL`` asks for TLS, not even ``http://`` goes without;
* a URL without a port is port 80, or 443 for https, as for every URL.

In one thing we are kinder: a bare ``host`` is port 8500, where ``consul``
would go to port 80.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

from attrs import field, frozen

from ..errors import ConfigurationError

#: Where an agent listens unless told otherwise.
DEFAULT_PORT = 8500

_URL_PORTS = {"http": 80, "https": 443}
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_NUMERIC = re.compile(r"[0-9.]+")

#: How Go reads truth.
_TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


@frozen
class Address:
    """
    One agent.

    :ivar scheme: how it is spoken to.
    :ivar host: name or IP literal, without brackets; empty for ``unix``.
    :ivar port: 0 for ``unix``.
    :ivar path: of the socket, for ``unix``.
    """

    scheme: Literal["http", "https", "unix"] = "http"
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""

    @property
    def ip(self) -> IPv4Address | IPv6Address | None:
        """
        The host as an IP address, ``None`` when it is a name.
        """
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """
        Host and port, as a URL has them.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.path}"
        return f"{self.scheme}://{self.authority}"


def _bad(text: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"Consul address {text!r}: {why}")


def _host(text: str, host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    if not host:
        raise _bad(text, "no host")
    if _NUMERIC.fullmatch(host):
        raise _bad(text, f"{host!r} is not an IP address")
    if not _HOST_NAME.fullmatch(host):
        raise _bad(text, f"{host!r} is not a host name")
    return host


def _port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _bad(text, f"{port!r} is not a port")
    return int(port)


def _host_and_port(text: str, rest: str, default: int) -> tuple[str, int]:
    if rest.startswith("["):
        host, bracket, after = rest[1:].partition("]")
        if not bracket:
            raise _bad(text, "no ']' after '['")
        if ":" not in host:
            raise _bad(text, f"{host!r} is not an IPv6 address")
        if after and not after.startswith(":"):
            raise _bad(text, f"{after!r} after ']'")
        return _host(text, host), _port(text, after[1:]) if after else default
    if rest.count(":") > 1:
        return _host(text, rest), default
    host, colon, port = rest.partition(":")
    return _host(text, host), _port(text, port) if colon else default


def parse_address(text: str, *, tls: bool = False) -> Address:
    """
    Read an address: ``host``, ``host:port``, an IPv4 or IPv6 address with or
    without brackets and port, an ``http://`` or ``https://`` URL, or
    ``unix:///path``.

    :param tls: speak TLS also to an ``http://`` address, or one without scheme.
    :raises ConfigurationError: naming the text, when it is none of these.
    """
    stripped = text.strip()
    if not stripped:
        raise _bad(text, "empty")
    scheme, mark, rest = stripped.partition("://")
    if not mark:
        host, port = _host_and_port(text, stripped, DEFAULT_PORT)
        return Address("https" if tls else "http", host, port)
    if scheme == "unix":
        if not rest.startswith("/"):
            raise _bad(text, "a socket needs an absolute path, unix:///path")
        return Address("unix", "", 0, rest)
    if scheme not in ("http", "https"):
        raise _bad(text, f"unknown scheme {scheme!r}")
    if "@" in rest:
        # Not quoted: it most likely holds a password.
        raise ConfigurationError(
            "a Consul address holds credentials: give them as CONSUL_HTTP_AUTH"
        )
    if tls:
        scheme = "https"
    host, port = _host_and_port(text, rest.removesuffix("/"), _URL_PORTS[scheme])
    return Address("https" if scheme == "https" else "http", host, port)


def parse_addresses(
    texts: str | Iterable[str], *, tls: bool = False
) -> tuple[Address, ...]:
    """
    Read one or several addresses, also several in one text with commas
    between them; each of them once, in order.

    :raises ConfigurationError: as :func:`parse_address`, and for none at all.
    """
    given = [texts] if isinstance(texts, str) else list(texts)
    parts = [part for text in given for part in text.split(",")]
    if not parts:
        raise ConfigurationError("no Consul address")
    return tuple(dict.fromkeys(parse_address(part, tls=tls) for part in parts))


@frozen
class TLSSettings:
    """
    How an agent proves who it is, and how we do.

    :ivar ca_file: certificates to trust, PEM; the system's when none is given.
    :ivar ca_path: a directory of such files.
    :ivar cert_file: our certificate, PEM, its chain after it.
    :ivar key_file: its key; the certificate file when not given.
    :ivar server_name: the name the agent's certificate must be for, when it is
        not the address.
    :ivar verify: whether the agent has to prove anything.
    """

    ca_file: str | None = None
    ca_path: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    verify: bool = True


@frozen
class ConnectionSettings:
    """
    All it takes to reach Consul.  Secrets do not show in the ``repr``.

    :ivar addresses: agents, tried in turn.
    :ivar token: the ACL token.
    :ivar token_file: a file that holds it, and wins.
    :ivar tls: for https addresses.
    :ivar datacenter: the datacenter asked, the agent's own when ``None``.
    :ivar namespace: of Consul Enterprise.
    :ivar basic_auth: ``user:password`` for a proxy in front of Consul.
    """

    addresses: tuple[Address, ...] = (Address(),)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: TLSSettings = TLSSettings()
    datacenter: str | None = None
    namespace: str | None = None
    basic_auth: str | None = field(default=None, repr=False)


def _truth(environ: Mapping[str, str], name: str, default: bool) -> bool:
    text = environ.get(name, "")
    if not text:
        return default
    if text not in _TRUTHS:
        raise ConfigurationError(f"{name}: {text!r} is neither true nor false")
    return _TRUTHS[text]


def from_environment(
    environ: Mapping[str, str], addresses: Iterable[str] = ()
) -> ConnectionSettings:
    """
    Read Consul's own environment variables.  An empty one counts as not set.

    :param addresses: addresses given elsewhere; they win over
        ``CONSUL_HTTP_ADDR``.
    :raises ConfigurationError: naming the variable, or the address.
    """

    def text(name: str) -> str | None:
        return environ.get(name) or None

    tls = _truth(environ, "CONSUL_HTTP_SSL", False)
    given = tuple(addresses)
    if given:
        parsed = parse_addresses(given, tls=tls)
    else:
        try:
            parsed = parse_addresses(
                text("CONSUL_HTTP_ADDR") or f"127.0.0.1:{DEFAULT_PORT}", tls=tls
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"CONSUL_HTTP_ADDR: {error}") from error
    return ConnectionSettings(
        addresses=parsed,
        token=text("CONSUL_HTTP_TOKEN"),
        token_file=text("CONSUL_HTTP_TOKEN_FILE"),
        tls=TLSSettings(
            ca_file=text("CONSUL_CACERT"),
            ca_path=text("CONSUL_CAPATH"),
            cert_file=text("CONSUL_CLIENT_CERT"),
            key_file=text("CONSUL_CLIENT_KEY"),
            server_name=text("CONSUL_TLS_SERVER_NAME"),
            verify=_truth(environ, "CONSUL_HTTP_SSL_VERIFY", True),
        ),
        namespace=text("CONSUL_NAMESPACE"),
        basic_auth=text("CONSUL_HTTP_AUTH"),
    )
