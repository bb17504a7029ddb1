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


class UnusableFile(ConfigurationError):
    """
    A file that is needed to reach Consul does not serve.

    :ivar setting: the field of :class:`ConnectionSettings` or
        :class:`TLSSettings` that names it.
    """

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(why)
        self.setting = setting


#: Where an agent listens unless told otherwise.
DEFAULT_PORT = 8500

_URL_PORTS = {"http": 80, "https": 443}
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_NUMERIC = re.compile(r"[0-9.]+")
_NAME = re.compile(r"[A-Za-z0-9_-]+")

#: The variable in which Consul looks for the path of each file.
_FILE_VARIABLES = {
    "token_file": "CONSUL_HTTP_TOKEN_FILE",
    "ca_file": "CONSUL_CACERT",
    "ca_path": "CONSUL_CAPATH",
    "cert_file": "CONSUL_CLIENT_CERT",
    "key_file": "CONSUL_CLIENT_KEY",
}

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


def check_name(text: str) -> str:
    """
    Give the name of a datacenter or namespace back if it can be one.

    :raises ConfigurationError: when it holds what Consul lets no such name hold.
    """
    if not _NAME.fullmatch(text):
        raise ConfigurationError(
            f"{text!r} is not a name: letters, digits, - and _ are allowed"
        )
    return text


def _check_datacenter(instance: object, attribute: object, value: str | None) -> None:
    if value is not None:
        try:
            check_name(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"datacenter: {error}") from error


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
    :ivar basic_auth: ``user:password`` for a proxy in front of Consul; without a
        colon it is the user, as in Consul.
    :ivar sources: where the paths of files come from, by field, as far as known:
        errors about a file name it.
    """

    addresses: tuple[Address, ...] = (Address(),)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: TLSSettings = TLSSettings()
    datacenter: str | None = field(default=None, validator=_check_datacenter)
    namespace: str | None = None
    basic_auth: str | None = field(default=None, repr=False)
    sources: Mapping[str, str] = field(factory=dict, eq=False, repr=False)


def _token(environ: Mapping[str, str]) -> str | None:
    token = environ.get("CONSUL_HTTP_TOKEN") or None
    if token is not None and not is_token(token):
        raise ConfigurationError("CONSUL_HTTP_TOKEN: it holds what no token holds")
    return token


def _named(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name)
    try:
        return check_name(text) if text else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from error


def is_token(text: str) -> bool:
    """
    Say whether a header can carry it as a token.
    """
    return text.isascii() and text.isprintable()


def _truth(environ: Mapping[str, str], name: str, default: bool) -> bool:
    text = environ.get(name, "")
    if not text:
        return default
    if text not in _TRUTHS:
        raise ConfigurationError(f"{name}: {text!r} is neither true nor false")
    return _TRUTHS[text]


def from_environment(
    environ: Mapping[str, str],
    addresses: Iterable[str] = (),
    token_file: str | None = None,
) -> ConnectionSettings:
    """
    Read Consul's own environment variables.  An empty one counts as not set.

    :param addresses: addresses given elsewhere; they win over
        ``CONSUL_HTTP_ADDR``.
    :param token_file: given elsewhere; it wins over ``CONSUL_HTTP_TOKEN_FILE``.
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
    files = {name: text(variable) for name, variable in _FILE_VARIABLES.items()}
    sources = {name: _FILE_VARIABLES[name] for name, path in files.items() if path}
    if token_file:
        files["token_file"] = token_file
        sources.pop("token_file", None)
    return ConnectionSettings(
        addresses=parsed,
        token=_token(environ),
        token_file=files["token_file"],
        tls=TLSSettings(
            ca_file=files["ca_file"],
            ca_path=files["ca_path"],
            cert_file=files["cert_file"],
            key_file=files["key_file"],
            server_name=text("CONSUL_TLS_SERVER_NAME"),
            verify=_truth(environ, "CONSUL_HTTP_SSL_VERIFY", True),
        ),
        namespace=_named(environ, "CONSUL_NAMESPACE"),
        basic_auth=text("CONSUL_HTTP_AUTH"),
        sources=sources,
    )
