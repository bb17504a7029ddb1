"""
A program: becomes a command, in a kernel session of its own that dies with its
member.

It is run as a file, by an interpreter that imports nothing but the standard
library, and replaces itself with the command at once.  Its arguments are the
process id of the member, the command's ``LC_CTYPE`` (empty for none; an
interpreter may have set one of its own), the directory to work in (empty for the
one it is in), and the command.

# Note [Between fork and exec]

The member knows this process's id as soon as it exists, and tells its guard of
it before anything else.  The process makes itself the leader of a session, so
that its id is that of its session and of its process group too; asks the kernel
to be killed when its parent dies; and looks whether the parent has died before
that was in force.  Only then does it become the command.  What keeps it from
becoming the command it writes to descriptor 3, which closes when it has
succeeded.
"""

from __future__ import annotations

import os
import signal
import sys

#: Where it says what kept it from becoming the command.
REPORT_FD = 3

#: The exit status of one that did not become it, as a shell's.
NOT_FOUND, NOT_EXECUTABLE = 127, 126

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> bool:
    """
    Have the kernel kill this process when its parent's thread ends.

    :return: whether it will; other systems than Linux cannot.
    """
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def main(arguments: list[str]) -> int:
    """
    Become the command.

    :return: the exit status where that cannot be.
    """
    parent, locale, directory, *command = arguments
    os.set_inheritable(REPORT_FD, False)
    os.setsid()
    die_with_parent()
    if os.getppid() != int(parent):
        return NOT_EXECUTABLE
    # The interpreter ignores these; a command expects the default.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if locale:
        os.environ["LC_CTYPE"] = locale
    else:
        os.environ.pop("LC_CTYPE", None)
    try:
        if directory:
            os.chdir(directory)
        os.execve(command[0], command, os.environ)
    except OSError as error:
        what = error.filename or command[0]
        os.write(REPORT_FD, f"{what}: {error.strerror}".encode()[:500])
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
