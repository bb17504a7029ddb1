"""
Processes of an earlier life of this member: found again, and killed.

The guard kills a member's processes when it dies.  Where that failed, because
both were killed at once, they are still there when the member is started again,
and would run beside the ones it starts.  So each session is written down
in a file of its own, with the time at which its process was started; a process
of the same id that was started at another time is a stranger's, and is left
alone.  So are those of a member that is still there: somebody has started another
one of its name.

# Note [What is left of a session without its leader]

The process that was started may be gone, and what it has started be there.  The
session is the same one then if what is in it has the environment that the command
was given: as long as there is a session, no process gets its id.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil
from attrs import frozen

from ..errors import ConfigurationError
from .guard import members, send

#: The variable that tells a command, and those who find it, of which item it is.
WORK_ID = "VOLTHA_COORD_WORK_ID"


def started(pid: int) -> str:
    """
    Give what tells a process from all others that have, had or will have its id:
    when it was started, in ticks since which boot.

    :return: empty when there is no such process.
    """
    try:
        # The name of the program comes before, in brackets, and may hold any.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {fields[19]}"
    except (OSError, IndexError):
        pass
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except (psutil.Error, ValueError, OverflowError):
        return ""


def directory_of(given: str | None, prefix: str, instance_id: str) -> Path:
    """
    Give the directory for the records of a member.

    :param given: the one that holds it; ``None`` for one of this user's, below
        that of the session, or else below that for temporary files.
    """
    if given is None:
        base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
        given = os.path.join(base, f"voltha-coord-{os.getuid()}")
    return Path(given) / f"{prefix.replace('/', '.')}@{instance_id}"


@frozen
class _Record:
    pid: int
    started: str
    member: int
    member_started: str


class Orphans:
    """
    Writes sessions down, and clears those that were left.

    :param directory: for the records of this member alone.
    :param private: whether the directory above it is to be this user's too, as
        it must be where everybody may write.
    """

    def __init__(self, directory: Path, log: Any, *, private: bool = True) -> None:
        self._directory = directory
        self._private = private
        self._log = log
        self._member = {"member": os.getpid(), "member_started": started(os.getpid())}

    def open(self) -> None:
        """
        Make the directory, if need be.

        :raises ConfigurationError: when that cannot be, or it is somebody else's.
        """
        where = self._directory
        try:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = [where.stat()]
            if self._private:
                found.append(where.parent.stat())
            with tempfile.TemporaryFile(dir=where):
                pass
        except OSError as error:
            raise ConfigurationError(
                f"state-directory: {where}: {error.strerror}"
            ) from error
        if any(one.st_uid not in (0, os.getuid()) for one in found):
            raise ConfigurationError(f"state-directory: {where} is somebody else's")
        if any(one.st_mode & 0o022 for one in found):
            raise ConfigurationError(f"state-directory: others may write to {where}")

    def clear(self) -> int:
        """
        Kill what an earlier life of this member has left.

        :return: how many sessions there were.
        """
        found = 0
        for path in sorted(self._directory.glob("*.pid")):
            record = _read(path)
            if record is not None and self._has_a_member(record):
                self._log.error(
                    "orphan-left",
                    work=path.stem,
                    pid=record.pid,
                    member=record.member,
                    effect="a member of this name is running beside this one",
                )
                continue
            if record is not None and _is_there(record, path.stem):
                found += 1
                send((record.pid,), signal.SIGKILL)
                self._log.warning("orphan-cleared", work=path.stem, pid=record.pid)
            with contextlib.suppress(OSError):
                path.unlink()
        return found

    def note(self, work: str, session: int) -> None:
        """
        Write a session down.  That it could not be is logged, and no
        reason not to run.
        """
        try:
            path = self._path(work)
            new = path.with_suffix(".new")
            record = {"pid": session, "started": started(session), **self._member}
            new.write_text(json.dumps(record))
            new.replace(path)
        except OSError as error:
            self._log.warning("process-not-noted", work=work, error=str(error))

    def forget(self, work: str) -> None:
        """
        Nothing is left of it.
        """
        with contextlib.suppress(OSError):
            self._path(work).unlink(missing_ok=True)

    def _has_a_member(self, record: _Record) -> bool:
        """
        Whether the member that wrote it down is there, and is not this one.
        """
        if record.member == self._member["member"] or not record.member_started:
            return False
        return started(record.member) == record.member_started

    def _path(self, work: str) -> Path:
        return self._directory / f"{work}.pid"


def _is_there(record: _Record, work: str) -> bool:
    """
    Whether it is still the same session.
    """
    now = started(record.pid)
    if now:
        return now == record.started
    # See Note [What is left of a session without its leader].
    for pid in members(record.pid):
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).environ().get(WORK_ID) == work:
                return True
    return False


def _read(path: Path) -> _Record | None:
    try:
        found = json.loads(path.read_text())
        record = _Record(
            int(found["pid"]),
            str(found["started"]),
            int(found["member"]),
            str(found["member_started"]),
        )
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return None
    except RecursionError:
        return None
    # 0 and 1 are no sessions of ours, and would be taken for many.
    return record if record.pid > 1 and record.started else None
