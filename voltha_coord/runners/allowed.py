"""
Which commands may be run: those that a pattern of the operator's matches.

Whoever can write under ``work/`` decides what is run, and by whom it is run is
decided by whoever starts the member.  So nothing is run unless that one said so.

# Note [What a pattern is matched against]

The program is looked up first, in the ``PATH`` that commands get, as it is when
it is run: what is matched and what is run is the same absolute path.  A pattern
without a blank is matched against that path: ``/usr/bin/ffmpeg``, ``/opt/jobs/*``.
A pattern with blanks is matched against the path and all arguments, each as a
shell would need it to be quoted: ``/usr/bin/ffmpeg -i *``.  ``*`` stands for
anything, ``/`` and blanks included; ``?`` for one character, ``[…]`` for one of
several.  Capitals matter.

A path is matched as it is written, links are not followed: a pattern allows
names, and whoever may change what a name stands for may run anything.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ..errors import CommandError, CommandNotAllowed


def find_program(name: str, environment: Mapping[str, str], directory: str) -> str:
    """
    Give the absolute path of a program.

    :param name: its path, or a name to be looked up in ``PATH``.
    :param environment: of the command.
    :param directory: it is run in; what a relative path is relative to.
    :raises CommandError: when there is none that can be executed.
    """
    if "/" in name:
        path = os.path.normpath(os.path.join(os.path.abspath(directory), name))
        if not _executable(path):
            raise CommandError(f"{path} cannot be executed: {_why_not(path)}")
        return path
    places = [p for p in environment.get("PATH", os.defpath).split(os.pathsep) if p]
    for place in places:
        path = os.path.join(os.path.abspath(place), name)
        if _executable(path):
            return path
    raise CommandError(f"there is no program {name!r} in {os.pathsep.join(places)}")


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _why_not(path: str) -> str:
    if not os.path.exists(path):
        return "there is no such file"
    return "it is no file" if not os.path.isfile(path) else "it may not be"


def check_allowed(
    program: str, arguments: Sequence[str], patterns: Sequence[str]
) -> None:
    """
    Make sure that a command may be run; see Note [What a pattern is matched
    against].

    :param program: the absolute path.
    :param arguments: the command, its first argument the program as it was named.
    :raises CommandNotAllowed: when no pattern matches.
    """
    whole = shlex.join([program, *arguments[1:]])
    for pattern in patterns:
        if fnmatchcase(whole if " " in pattern else program, pattern):
            return
    if not patterns:
        raise CommandNotAllowed(
            f"{program} may not be run: no command may; --allow-command says which may"
        )
    raise CommandNotAllowed(
        f"{program} may not be run: --allow-command allows {', '.join(patterns)}"
    )
