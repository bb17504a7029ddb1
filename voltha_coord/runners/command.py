"""
What an item of the runner ``process`` is to run: its ``config``, read.

Pure.  Whatever is in it, it is read or refused with an error that names what is
wrong; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from attrs import field, frozen

from .._json import in_short
from ..errors import CommandError

#: What a config may say.
KEYS = (
    "command",
    "environment",
    "directory",
    "reconnect",
    "reconnect_delay",
    "stale_timeout",
)

#: Seconds between the end of a command and its next start, unless told otherwise.
RECONNECT_DELAY = 5.0

#: The longest delay and timeout that can be asked for, in seconds.
MOST_SECONDS = 86_400.0

#: The most bytes that a command and its environment may have together: Linux
#: takes a quarter of the stack, 2 MiB, and 128 KiB for each text.
MOST_BYTES = 1024 * 1024
MOST_BYTES_OF_ONE = 128 * 1024 - 1

#: How the variables begin with which the dynamic loader is told to load code into
#: any program.
LOADERS = ("LD_", "DYLD_", "GCONV_PATH")


@frozen
class Command:
    """
    What is to be run.

    :ivar arguments: the command and its arguments; no shell looks at them.
    :ivar environment: what is added to the environment of all commands.
    :ivar directory: to run it in; empty for that of the member.
    :ivar reconnect: whether it is started again when it has ended.
    :ivar reconnect_delay: seconds between; more, if it ends again and again.
    :ivar stale_timeout: seconds without any output after which it is killed; 0
        for never.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(factory=dict)
    directory: str = ""
    reconnect: bool = True
    reconnect_delay: float = RECONNECT_DELAY
    stale_timeout: float = 0.0

    @classmethod
    def from_config(cls, config: Any) -> Command:
        """
        Read the ``config`` of a work item.

        :raises CommandError: naming what is wrong.
        """
        if not isinstance(config, Mapping):
            raise CommandError("config is not an object with a command")
        for key in config:
            if key not in KEYS:
                raise CommandError(f"config.{key}: there is no such setting{near(key)}")
        command = cls(
            arguments=_arguments(config.get("command")),
            environment=_environment(config.get("environment", {})),
            directory=_text("config.directory", config.get("directory", "")),
            reconnect=_truth("config.reconnect", config.get("reconnect", True)),
            reconnect_delay=_seconds(config, "reconnect_delay", RECONNECT_DELAY),
            stale_timeout=_seconds(config, "stale_timeout", 0.0),
        )
        _check_size(command)
        return command

    @property
    def process(self) -> tuple[Any, ...]:
        """
        All that makes it another process if it changes.
        """
        return self.arguments, dict(self.environment), self.directory


def near(key: object) -> str:
    """
    Give a hint at the setting that was meant, if there is one that may be.
    """
    found = get_close_matches(str(key), KEYS, 1)
    return f"; did you mean {found[0]}?" if found else f" (there are {', '.join(KEYS)})"


def _arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise CommandError("config.command is not a list of texts, with one at least")
    arguments = tuple(
        _text(f"config.command, number {place}", part)
        for place, part in enumerate(value)
    )
    if not arguments[0]:
        raise CommandError("config.command names no program")
    return arguments


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise CommandError("config.environment is not an object")
    for name in value:
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise CommandError(
                f"config.environment: {name!r} cannot be the name of a variable"
            )
        if name.startswith(LOADERS):
            raise CommandError(
                f"config.environment.{name}: it may put other code into the program "
                "that is allowed"
            )
    return {n: _text(f"config.environment.{n}", text) for n, text in value.items()}


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise CommandError(f"{what}: {in_short(value)} is not a text")
    if "\0" in value:
        raise CommandError(f"{what} has a zero byte in it")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise CommandError(f"{what} cannot be encoded as UTF-8") from None
    return value


def _truth(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise CommandError(f"{what}: {in_short(value)} is neither true nor false")
    return value


def _seconds(config: Mapping[str, Any], name: str, default: float) -> float:
    value = config.get(name, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # NaN is not between any two numbers.
    if not number or not 0 <= value <= MOST_SECONDS:
        raise CommandError(
            f"config.{name}: {in_short(value)} is not a number of seconds from 0 to "
            f"{MOST_SECONDS:g}"
        )
    return float(value)


def _check_size(command: Command) -> None:
    texts = [*command.arguments]
    texts += (f"{name}={value}" for name, value in command.environment.items())
    sizes = [len(text.encode()) for text in texts]
    if max(sizes) > MOST_BYTES_OF_ONE or sum(sizes) > MOST_BYTES:
        raise CommandError(
            f"the command and its environment have {sum(sizes)} bytes, the longest "
            f"text {max(sizes)}: more than a system takes"
        )
