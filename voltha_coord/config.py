"""
Options from the command line, the environment and a file, and where each came from.

Pure but for :func:`read_file`.  The nearest source wins: the command line, then
the environment, then the file, then the default.  A value that cannot be used
is refused whichever source it comes from, with the option's name and the source.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from attrs import field, frozen

from .consul.address import check_name
from .errors import ConfigurationError

#: Every option has an environment variable of this prefix and its name.
VARIABLE_PREFIX = "VOLTHA_COORD_"

#: Kubernetes and Docker put such variables into every process beside a service
#: that is called voltha-coord (or voltha-coord-…); nobody set them.
_SERVICE_LINK = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://\S+")


@frozen
class Parameter:
    """
    One option.

    :ivar name: without its dashes in front: ``rest-port``.
    :ivar convert: makes the value of what a source holds, a text or what YAML
        makes of it; a ``ValueError`` says what is wrong with it.
    :ivar default: what is used when no source names it, before ``convert``;
        ``None`` for a default that depends on the environment.
    :ivar doc: what it is for, for ``--help``.
    :ivar aliases: further environment variables, the original coordinator's.
    :ivar kind: ``value``, ``flag``, or ``list`` (may be repeated).
    :ivar shown_default: the default in words, where there is more to say.
    """

    name: str
    convert: Callable[[Any], Any]
    default: Any
    doc: str
    aliases: Sequence[str] = ()
    kind: str = "value"
    shown_default: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """
        The environment variables that set it, the nearest first.
        """
        own = VARIABLE_PREFIX + self.name.upper().replace("-", "_")
        return (own, *self.aliases)

    @property
    def help(self) -> str:
        """
        What ``--help`` says of it.
        """
        default = self.shown_default
        if default is None and self.default not in (None, False, ()):
            default = f"{self.default}"
        told = f"default {default}; " if default is not None else ""
        return f"{self.doc} ({told}{', '.join(self.variables)})"


@frozen
class Value:
    """
    What an option has been set to, and by what.

    :ivar source: in words: an environment variable, a file and its key …
    """

    value: Any
    source: str


@frozen
class ConfigFile:
    """
    What a configuration file says.

    :ivar path: as it was given.
    :ivar values: by option name, as YAML has them.
    :ivar keys: by option name, the key as the file spells it.
    """

    path: str
    values: Mapping[str, Any] = field(factory=dict)
    keys: Mapping[str, str] = field(factory=dict)


def read_file(where: Value, parameters: Sequence[Parameter]) -> ConfigFile:
    """
    Read a YAML file of options; dashes in their names may be underscores.

    :param where: its path.
    :raises ConfigurationError: when it cannot be read, is no mapping, or holds
        a key that is no option; each is named.
    """
    path = where.value

    def bad(why: str) -> ConfigurationError:
        return refusal("config", why, where.source)

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise bad(f"cannot read {path!r}: {reason}") from error
    except yaml.YAMLError as error:
        raise bad(f"{path!r} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return ConfigFile(path)
    if not isinstance(content, dict):
        raise bad(f"{path!r} is not a mapping of options")
    names = [parameter.name for parameter in parameters]
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}
    unknown = []
    for key, value in content.items():
        name = str(key).replace("_", "-")
        if name not in names:
            unknown.append(f"{key!r}{_nearest_to(name, names)}")
        elif name in keys:
            raise bad(f"{path!r} has {name!r} twice")
        else:
            values[name] = value
            keys[name] = str(key)
    if unknown:
        raise bad(f"{path!r} has keys that are no options: {', '.join(unknown)}")
    return ConfigFile(path, values, keys)


def check_variables(
    parameters: Sequence[Parameter],
    environ: Mapping[str, str],
    others: Sequence[str] = (),
) -> None:
    """
    Refuse environment variables that look like options and are none.

    An empty one counts as not set.

    :param others: variables of that prefix which mean something elsewhere.
    :raises ConfigurationError: naming each, and what may have been meant.
    """
    known = [parameter.variables[0] for parameter in parameters] + [*others]
    # Compared by what is behind the prefix, which would make all of them alike.
    ends = [name.removeprefix(VARIABLE_PREFIX) for name in known]
    unknown = [
        name + _nearest_to(name.removeprefix(VARIABLE_PREFIX), ends, VARIABLE_PREFIX)
        for name, value in sorted(environ.items())
        if value
        and name.startswith(VARIABLE_PREFIX)
        and name not in known
        and not _SERVICE_LINK.fullmatch(name)
        and not _SERVICE_LINK_VALUE.fullmatch(value)
    ]
    if unknown:
        raise ConfigurationError(
            f"environment variables that are no options: {', '.join(unknown)}"
        )


def _nearest_to(name: str, names: Sequence[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(name, names, 1)
    return "".join(f" (is {prefix + n!r} meant?)" for n in near)


def resolve(
    parameters: Sequence[Parameter],
    given: Mapping[str, Any],
    environ: Mapping[str, str],
    file: ConfigFile | None = None,
) -> dict[str, Value]:
    """
    Give each option the value of its nearest source.

    An empty environment variable counts as not set.

    :param given: what the command line said, by option name.
    :raises ConfigurationError: naming the option and the source of a value that
        cannot be used.
    """
    return {p.name: _nearest(p, given, environ, file) for p in parameters}


def _nearest(
    parameter: Parameter,
    given: Mapping[str, Any],
    environ: Mapping[str, str],
    file: ConfigFile | None,
) -> Value:
    name = parameter.name
    if name in given:
        return _converted(parameter, given[name], "the command line")
    for variable in parameter.variables:
        if environ.get(variable):
            return _converted(parameter, environ[variable], variable)
    if file is not None and file.values.get(name) is not None:
        source = f"{file.path}, key {file.keys[name]}"
        return _converted(parameter, file.values[name], source)
    if parameter.default is None:
        return Value(None, "default")
    return _converted(parameter, parameter.default, "default")


def _converted(parameter: Parameter, raw: Any, source: str) -> Value:
    try:
        return Value(parameter.convert(raw), source)
    except ValueError as error:
        raise refusal(parameter.name, str(error), source) from error


def refusal(name: str, why: str, source: str) -> ConfigurationError:
    """
    Give the error that refuses a value of an option, naming where it is from.
    """
    return ConfigurationError(f"--{name}: {why} (from {source})")


def text(raw: Any) -> str:
    """
    Take a text that is not empty and has no characters that cannot be seen.
    """
    if isinstance(raw, bool | list | dict):
        raise ValueError(f"{raw!r} is not a text")
    value = str(raw)
    if not value.strip() or not value.isprintable():
        raise ValueError(f"{raw!r} is empty or holds what cannot be printed")
    return value


def host(raw: Any) -> str:
    """
    Take a host's name or address.
    """
    value = text(raw)
    try:
        # What sockets do to a name before they look it up.
        value.encode("idna")
        bad = any(character in value for character in " /,@")
    except UnicodeError:
        bad = True
    if bad:
        raise ValueError(f"{value!r} is not the name or address of a host")
    return value


def datacenter(raw: Any) -> str:
    """
    Take the name of a Consul datacenter.
    """
    return check_name(text(raw))


def number(raw: Any) -> float:
    """
    Take a finite number.
    """
    try:
        if isinstance(raw, bool):
            raise ValueError
        value = float(raw)
    except (TypeError, ValueError):
        raise ValueError(f"{raw!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{raw!r} is not a finite number")
    return value


def weight(raw: Any) -> float:
    """
    Take a number above 0.
    """
    value = number(raw)
    if value <= 0:
        raise ValueError(f"{raw} is not above 0")
    return value


def percent(raw: Any) -> float:
    """
    Take a number above 0 and up to 100.
    """
    value = number(raw)
    if not 0 < value <= 100:
        raise ValueError(f"{raw} is not above 0 and up to 100")
    return value


def port(raw: Any) -> int:
    """
    Take a TCP port; 0 lets the system choose one.
    """
    try:
        if isinstance(raw, bool | float):
            raise ValueError
        value = int(raw)
    except (TypeError, ValueError):
        raise ValueError(f"{raw!r} is not a port") from None
    if not 0 <= value <= 65535:
        raise ValueError(f"{raw} is not a port, 0 to 65535")
    return value


def port_or_off(raw: Any) -> int | None:
    """
    Take a TCP port, or ``off`` for ``None``.
    """
    # YAML reads a bare off as false.
    if raw is False or (isinstance(raw, str) and raw.strip().lower() == "off"):
        return None
    try:
        return port(raw)
    except ValueError as error:
        raise ValueError(f"{error}, nor off") from None


def boolean(raw: Any) -> bool:
    """
    Take a yes or a no.
    """
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    try:
        return words[str(raw).strip().lower()]
    except KeyError:
        raise ValueError(f"{raw!r} is neither yes nor no") from None


def one_of(*words: str) -> Callable[[Any], str]:
    """
    Take one of these words.
    """

    def convert(raw: Any) -> str:
        if raw not in words:
            raise ValueError(f"{raw!r} is none of {', '.join(words)}")
        return str(raw)

    return convert


def texts(raw: Any) -> tuple[str, ...]:
    """
    Take several texts: a list, or a text with commas between them.
    """
    several = raw if isinstance(raw, list | tuple) else [raw]
    parts = [part for one in several for part in text(one).split(",")]
    values = tuple(text(part).strip() for part in parts)
    if not values:
        raise ValueError("names nothing")
    return values


def patterns(raw: Any) -> tuple[str, ...]:
    """
    Take several patterns: a list, or a text with one in each line.
    """
    several = raw.splitlines() if isinstance(raw, str) else raw
    if not isinstance(several, list | tuple):
        raise ValueError(f"{raw!r} is no list of patterns")
    return tuple(text(one).strip() for one in several)
