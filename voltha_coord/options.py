"""
The options of ``twistd voltha_coord``.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from attrs import evolve
from twisted.python import usage

from twisted import __version__ as twisted_version

from . import config, plugins
from ._parameters import CONFIG, EMBEDDED, PARAMETERS
from ._version import __version__
from .config import Value
from .consul.address import (
    DEFAULT_PORT,
    Address,
    ConnectionSettings,
    UnusableFile,
    from_environment,
)
from .consul.connect import credentials
from .errors import ConfigurationError
from .keys import check_instance_id
from .settings import Settings

#: Variables of the same prefix that voltha-coordctl alone knows.
_OTHER_VARIABLES = ("VOLTHA_COORD_TIMEOUT",)

#: Options that go into Settings unchanged.
_SETTINGS = (
    "prefix",
    "failure-detection",
    "lock-delay",
    "session-ttl",
    "node-health",
    "isolation",
    "emergency-timeout",
    "node-recover-timeout",
    "stuck-work",
    "drain-timeout",
    "allow-command",
    "state-directory",
)


def primary_ipv4() -> str:
    """
    Give this host's address on the route to the rest of the world, the loopback
    address where there is no such route.  Nothing is sent.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # An address for documentation: connecting a datagram socket only
            # looks up the route.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _help_of(name: str) -> str:
    return next(p.help for p in PARAMETERS if p.name == name)


class Options(usage.Options):
    """
    The options of ``twistd voltha_coord``.

    Once parsed, each option has its value, whatever source it came from.

    :param environ: the environment.
    :ivar settings: what the Coordinator gets of them.
    :ivar connection: how Consul is reached; its address does not count with an
        embedded one.
    :ivar embedded_port: the embedded Consul's port, ``None`` without one.
    """

    synopsis = "[options]"
    longdesc = (
        "Runs one member of a cluster.  Members meet in Consul, elect a leader, "
        "and divide the work items among them.  Each option may also be given as "
        "an environment variable or in a file; the command line wins, then the "
        "environment, then the file.  Consul's own variables (CONSUL_HTTP_ADDR, "
        "CONSUL_HTTP_TOKEN, CONSUL_CACERT …) mean what they mean to Consul."
    )
    optFlags: ClassVar[list[Any]] = [
        [p.name, None, p.help] for p in PARAMETERS if p.kind == "flag"
    ]
    optParameters: ClassVar[list[Any]] = [
        [p.name, None, None, p.help] for p in (*PARAMETERS, CONFIG) if p.kind == "value"
    ]

    settings: Settings
    connection: ConnectionSettings
    embedded_port: int | None

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__()
        self._environ = environ
        self._given: dict[str, Any] = {}
        self._config: Value | None = None
        self._directory = ""
        self._refused = False

    def parseOptions(self, options: Sequence[str] | None = None) -> None:  # noqa: N802
        """
        Parse a command line.

        :raises UsageError: naming what is wrong.
        """
        try:
            super().parseOptions(options)
        except usage.UsageError:
            self._refused = True
            raise

    def getUsage(self, width: int | None = None) -> str:  # noqa: N802
        """
        Give the help.  twistd prints it before what is wrong with a command line:
        then it is one line, so that this is not lost below it.
        """
        if self._refused:
            return "twistd voltha_coord --help lists the options."
        return str(super().getUsage(width))

    def opt_consul(self, address: str) -> None:  # noqa: D102 (set below)
        self._given.setdefault("consul", []).append(address)

    def opt_allow_command(self, pattern: str) -> None:  # noqa: D102 (set below)
        self._given.setdefault("allow-command", []).append(pattern)

    opt_consul.__doc__ = _help_of("consul")
    opt_allow_command.__doc__ = _help_of("allow-command")

    def opt_version(self) -> NoReturn:
        """
        Print the version, and Twisted's, and exit.
        """
        print(f"voltha_coord {__version__} (Twisted {twisted_version})")
        sys.exit(0)

    def parseArgs(self, *arguments: str) -> None:  # noqa: N802 (Twisted's name)
        """
        Take no arguments.

        :raises UsageError: naming the first there is.
        """
        if arguments:
            raise usage.UsageError(
                f"unexpected argument {arguments[0]!r}: there are options only"
            )

    def postOptions(self) -> None:
        """
        Find each option's value, and whether they can work together.

        :raises UsageError: naming the option, and the source of its value.
        """
        self._directory = os.getcwd()
        given = {k: v for k, v in self.items() if v not in (None, 0)}
        self._given = {**given, **self._given}
        try:
            config.check_variables(
                (*PARAMETERS, CONFIG), self._environ, _OTHER_VARIABLES
            )
            path = config.resolve([CONFIG], self._given, self._environ)["config"]
            if path.value is not None:
                # twistd may go to another directory before it is read again.
                self._config = evolve(path, value=os.path.abspath(path.value))
            values = self.read_again()
            self.settings = _settings(values)
            self.embedded_port = _embedded_port(values["consul"])
            self.connection = _connection(values, self._environ, self.embedded_port)
            self.leader = _plugin(plugins.find_leader, "leader", values)
            self.worker = _plugin(plugins.find_worker, "worker", values)
        except ConfigurationError as error:
            raise usage.UsageError(str(error)) from error
        self.update({name: value.value for name, value in values.items()})

    def read_again(self) -> dict[str, Value]:
        """
        Give what every option is set to by what the sources say now.

        :raises ConfigurationError: naming the option and the source of what
            cannot be used.
        """
        file = None
        if self._config is not None:
            file = config.read_file(self._config, PARAMETERS)
        values = config.resolve(PARAMETERS, self._given, self._environ, file)
        token_file = values["token-file"]
        if token_file.value is not None:
            path = os.path.join(self._directory, token_file.value)
            values["token-file"] = evolve(token_file, value=path)
        for name, default in (
            ("instance-id", self._default_instance_id),
            ("internal-host-address", lambda: Value(primary_ipv4(), "default")),
            ("external-host-address", lambda: Value(primary_ipv4(), "default")),
        ):
            if values[name].value is None:
                values[name] = default()
        return values

    @property
    def files(self) -> list[str]:
        """
        The files that are read again while the process runs.
        """
        config = None if self._config is None else self._config.value
        return [path for path in (config, self.connection.token_file) if path]

    def _default_instance_id(self) -> Value:
        source = "HOSTNAME"
        name = self._environ.get(source)
        if not name:
            name, source = socket.gethostname(), "the host's name"
        try:
            return Value(check_instance_id(name), source)
        except ValueError as error:
            raise config.refusal("instance-id", str(error), source) from error


def _settings(values: Mapping[str, Value]) -> Settings:
    """
    Make the Settings; an error names options instead of fields, and where those
    come from that were set.
    """
    fields = {name.replace("-", "_"): name for name in _SETTINGS}
    try:
        return Settings(**{f: values[name].value for f, name in fields.items()})
    except ConfigurationError as error:
        told: dict[str, str] = {}

        def option(match: re.Match[str]) -> str:
            name = fields.get(match[0])
            if name is None:
                return match[0]
            if values[name].source != "default":
                told[f"--{name}"] = values[name].source
            return f"--{name}"

        # A prefix is a text of people's own; the rest are our words.
        count = 1 if str(error).startswith("prefix:") else 0
        text = re.sub(r"\w+", option, str(error), count=count)
        sources = ", ".join(
            source if len(told) == 1 else f"{name} from {source}"
            for name, source in told.items()
        )
        before = "from " if len(told) == 1 else ""
        raise ConfigurationError(f"{text} ({before}{sources})") from error


def _embedded_port(consul: Value) -> int | None:
    """
    Give the port of the embedded Consul, if that is what is wanted.
    """
    addresses: tuple[str, ...] = consul.value or ()
    if not any(re.match(rf"{EMBEDDED}(:|$)", address) for address in addresses):
        return None
    if len(addresses) > 1:
        why = "an embedded Consul stands alone"
        raise config.refusal("consul", why, consul.source)
    _, colon, port = addresses[0].partition(":")
    try:
        return config.port(port) if colon else DEFAULT_PORT
    except ValueError as error:
        raise config.refusal("consul", str(error), consul.source) from error


def _connection(
    values: Mapping[str, Value], environ: Mapping[str, str], embedded_port: int | None
) -> ConnectionSettings:
    """
    Say how Consul is reached, once all that is needed for it has been read.
    """
    consul, token_file = values["consul"], values["token-file"]
    embedded = Address(port=embedded_port or DEFAULT_PORT)
    addresses = consul.value or ()
    if embedded_port is not None:
        # Whatever else CONSUL_HTTP_ADDR may say.
        addresses = (embedded.authority,)
    try:
        found = from_environment(environ, addresses, token_file.value)
    except ConfigurationError as error:
        # What Consul's own variables say names them already.
        if consul.value is None or str(error).startswith("CONSUL_"):
            raise
        raise config.refusal("consul", str(error), consul.source) from error
    if embedded_port is not None:
        # Nor has it TLS.
        found = evolve(found, addresses=(embedded,))
    found = evolve(_absolute(found), datacenter=values["datacenter"].value)
    try:
        credentials(found)
    except UnusableFile as error:
        if error.setting != "token_file" or token_file.value is None:
            raise
        raise config.refusal("token-file", str(error), token_file.source) from error
    return found


def _absolute(settings: ConnectionSettings) -> ConnectionSettings:
    """
    Name files by their whole path: twistd may go to another directory before
    they are read again.
    """

    def whole(path: str | None) -> str | None:
        return None if path is None else os.path.abspath(path)

    tls = settings.tls
    return evolve(
        settings,
        token_file=whole(settings.token_file),
        tls=evolve(
            tls,
            ca_file=whole(tls.ca_file),
            ca_path=whole(tls.ca_path),
            cert_file=whole(tls.cert_file),
            key_file=whole(tls.key_file),
        ),
    )


def _plugin(
    find: Callable[[str], Any], option: str, values: Mapping[str, Value]
) -> Any:
    value = values[option]
    try:
        return find(value.value)
    except ConfigurationError as error:
        raise config.refusal(option, str(error), value.source) from error
